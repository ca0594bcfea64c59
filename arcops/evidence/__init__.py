"""Records of what was measured, and of what it was measured on; comparison, reports, qualification.

record        one run in one file: written once, with its digest
shelf         where records are kept, and how they are found again
"""
