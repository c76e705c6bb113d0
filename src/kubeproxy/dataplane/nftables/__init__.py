"""nftables mode: a fixed program, and the cluster as its data.

`program` describes tables, sets, chains and rules once, in the words of `language`; `render` turns
them into nft text for people and `encode` into netlink bytes for the kernel. `elements` turns
entries of the forwarding table into elements of the program's maps, `placed` says where a backend
stands in its list, `dump` reads the kernel's state back, and `apply` makes the two equal.
No chain, rule or set is made for a service or an endpoint.
"""
