"""Stand-ins for the edges of the proxy: each refuses what the real thing refuses.

Comes in: what the code under test would send to the real thing. Goes out: what that would answer.
Never here: knowledge of the code under test. The fakes are tested themselves, beside this file.
"""
