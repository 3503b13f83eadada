"""The permutation that BookSim2 draws for `randperm`, with Knuth's subtractive generator."""

from __future__ import annotations

LONG, SHORT = 100, 37
MODULUS = 2**30
BATCH = 1009  # numbers made at a time, of which the first LONG are used


class SubtractiveGenerator:
    """X[j] = (X[j - 100] - X[j - 37]) mod 2^30 (Knuth, The Art of Computer Programming, 3.6; of 2002)."""

    def __init__(self, seed: int) -> None:
        state = (seed + 2) % MODULUS & ~1
        buffer = []
        for _ in range(LONG):
            buffer.append(state)
            state *= 2
            if state >= MODULUS:
                state -= MODULUS - 2
        buffer[1] += 1
        buffer += [0] * (LONG - 1)
        bits, rounds = seed % MODULUS, 69
        while rounds:
            self._advance(buffer, odd=bool(bits & 1))
            if bits:
                bits >>= 1
            else:
                rounds -= 1
        self._state = [*buffer[SHORT:LONG], *buffer[:SHORT]]
        for _ in range(10):
            self._make(2 * LONG - 1)
        self._ready: list[int] = []

    @staticmethod
    def _advance(buffer: list[int], *, odd: bool) -> None:
        """Square the polynomial in the buffer, and multiply it by z if `odd`."""
        for j in range(LONG - 1, 0, -1):
            buffer[2 * j], buffer[2 * j - 1] = buffer[j], 0
        for j in range(2 * LONG - 2, LONG - 1, -1):
            for place in (j - (LONG - SHORT), j - LONG):
                buffer[place] = (buffer[place] - buffer[j]) % MODULUS
        if odd:
            buffer[1 : LONG + 1] = buffer[:LONG]
            buffer[0] = buffer[LONG]
            buffer[SHORT] = (buffer[SHORT] - buffer[LONG]) % MODULUS

    def _make(self, count: int) -> list[int]:
        """Return the next `count` numbers, the first of which are the state."""
        numbers = list(self._state)
        while len(numbers) < count + LONG:
            numbers.append((numbers[-LONG] - numbers[-SHORT]) % MODULUS)
        self._state = numbers[count : count + LONG]
        return numbers[:count]

    def below(self, choices: int) -> int:
        """Return a number from 0 to `choices` - 1."""
        if not self._ready:
            self._ready = self._make(BATCH)[:LONG][::-1]
        return self._ready.pop() % choices


def random_permutation(nodes: int, seed: int) -> list[int]:
    """Return the destination of every node."""
    generator = SubtractiveGenerator(seed)
    free = list(range(nodes))
    destinations = [0] * nodes
    for destination in range(nodes):
        destinations[free.pop(generator.below(len(free)))] = destination
    return destinations
