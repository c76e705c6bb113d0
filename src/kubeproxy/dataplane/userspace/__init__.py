"""userspace mode: listeners of our own, which pass on what clients send to an endpoint.

`listeners` says which listeners there should be, `rules` how packets come to them, and `apply`
has both. The work is done in processes of their own (`worker`): `relay` moves the bytes of
connections, `datagrams` those of UDP, and `choosing` says which endpoint a client gets.
"""
