"""ipvs mode: virtual servers, sets, addresses and rules, entry for entry as upstream leaves them.

Entries of the table come in; what goes out is the difference to what the kernel has, as netlink
commands, `ipset restore` and `iptables-restore` text. Only `apply.py` and `prepare.py` touch the
kernel.
"""
