"""Costs in instructions: stock kernels in an emulator whose clock counts them.

`__main__` boots the kernels and collects; `guest` runs in each of them. One nanosecond of the
guest's clock is one instruction of its only processor, whatever else this machine does.
"""
