"""What the prompts are made of: real content that repeats nothing, cut to an exact number of the server's own tokens.

texts       prose and code from arcops' own documents and sources, as they once were: the same in every later version
documents   JSON, YAML, tables, measurements and logs, made up from fixed seeds
cut         slices of them, in tokens
suite       twelve fixed questions of six classes
"""
