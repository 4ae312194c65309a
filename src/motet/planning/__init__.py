"""What a study is worth before anybody is asked: a pilot read, settings proposed, and both evaluated.

a pilot       pilot (whose rows), inputs (their columns), gains (what each tells), fitting (rows that a study takes)
a proposal    proposal (settings), sections (the study file), choice (full or plain structure; ``motet.propose``)
its worth     evaluation, scores, baselines
a forecast    outlook, findings
"""
