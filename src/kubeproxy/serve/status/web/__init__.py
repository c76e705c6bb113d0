"""Wire values -> the pages that browsers show. Functions on values: no I/O, and no state.

Every text becomes HTML in `markup`, which escapes it; the style and the script are files in
`assets`, which `document` puts into each page together with the policy that allows these two and
nothing else.
"""
