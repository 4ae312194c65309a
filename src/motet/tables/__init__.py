"""Tables whose columns have roles: read, held as frames or in parts, and what their cells mean.

text and cells    cells, decoding, dates
files             files, workbooks, large, arrow
columns           columns, readings, catalogue, items
rows of tasks     roles, rows, missing, frames, encoding, grouping
"""
