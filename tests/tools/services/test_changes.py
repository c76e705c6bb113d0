from msgspec.structs import replace

from kubeproxy.tools.services.changes import changes
from tools.reported import CART, DNS, REPORTS


def test_what_is_new_other_and_gone() -> None:
    counted = replace(DNS, connections=1_000_000, per_second=7.0)
    other = replace(CART, endpoints_used=0)
    assert changes((CART, DNS), (CART, counted)) == ((), ())
    assert changes((CART, DNS), (other, DNS, REPORTS)) == ((other, REPORTS), ())
    assert changes((CART, DNS), (DNS,)) == ((), (CART,))
