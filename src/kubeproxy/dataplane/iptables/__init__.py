"""iptables mode: the rules that upstream writes, chain for chain and word for word.

Entries of the table come in; what goes out is the text that `iptables-restore` reads. Only
`apply.py` runs programs. The order between services is by their names, so that two syncs of one
cluster write the same text.
"""
