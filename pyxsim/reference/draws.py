"""The random numbers of docs/router.md, "Draws": functions of the packet and the purpose of the draw only."""

from __future__ import annotations

G = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1

WAY, VIA, SELECT, OTHER, TIE = 1, 2, 3, 4, 5


def mix(x: int) -> int:
    """The finaliser of SplitMix64."""
    x &= WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def key(seed: int, serial: int, number: int) -> int:
    """The key of packet `number` of message `serial`."""
    return mix(seed + G * (serial + 1)) ^ mix(G * (number + 1))


def error(seed: int, link: int, launch: int, purpose: int) -> int:
    """Return the 64 bits that decide on a bit error in launch number `launch` of a link."""
    return mix(mix(seed + G * (link + 1)) + G * (2 * launch + purpose + 1))


def draw(packet_key: int, a: int, purpose: int) -> int:
    return mix(packet_key + G * (8 * a + purpose)) >> 16
