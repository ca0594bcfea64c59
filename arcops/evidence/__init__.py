"""Records of what was measured, and of what it was measured on; comparison, reports, qualification.

record        one run in one file: written once, with its digest
shelf         where records are kept, and how they are found again
sealed        a record as bytes with a digest over itself, and back
oracle        does an identity follow from its oracle's answers
schema        the JSON Schema of a record's file
measure       runs a benchmark with its witness and its oracle, and keeps the record
benches       the four benchmarks by name, with what was chosen as words
target        which server is measured, and its key
fresh         other backends through the daemon: with empty caches, or another profile's
"""
