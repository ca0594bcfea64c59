"""Records of what was measured, and of what it was measured on; comparison, reports, qualification.

record        one run in one file: written once, with its digest
shelf         where records are kept, and how they are found again
sealed        a record as bytes with a digest over itself, and back
oracle        does an identity follow from its oracle's answers
schema        the JSON Schema of a record's file
"""
