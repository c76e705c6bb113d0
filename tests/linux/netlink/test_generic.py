from kubeproxy.linux.netlink.generic import body, number_in, number_request, request
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, Message

ANSWER = bytes.fromhex(
    "01020000 09000200 49505653 00000000 06000100 1c000000 08000300 01000000 08000500 06000000"
)


def test_a_request() -> None:
    expected = Message(28, NLM_F_REQUEST | NLM_F_DUMP, 0, bytes.fromhex("04010000 04000100"))
    assert expected == request(28, 4, bytes.fromhex("04000100"), NLM_F_DUMP)


def test_the_request_for_a_number() -> None:
    payload = bytes.fromhex("03010000 09000200 49505653 00000000")
    assert Message(0x10, NLM_F_REQUEST | NLM_F_ACK, 0, payload) == number_request("IPVS")


def test_the_number_in_the_answer() -> None:
    message = Message(0x10, 0, 0, ANSWER)
    assert (number_in(message), body(message)[2]) == (28, b"IPVS\0")
