"""Changes of programs that should not change the first finding.

A mutation changes the source text (lines, names, sizes, in_place, wrapped) or how a program runs
(bfloat16, lengths, cuda). `python -m tests.causes.mutations` measures how many variants of the
programs have the first finding of the unchanged program. It changes no rule.
"""
