"""A report: records as one HTML file that opens offline, in any browser, without a script.

page          from records to the file
scales        places and words along an axis
drawing       a plot as SVG, by pygal
curves        over concurrency, depth and conditions
distributions of TTFT and chunk gaps
timeline      the cards while a run went on
verdicts      what has to be known before any figure is read
tables        the figures as rows
about         where and how something was measured
"""
