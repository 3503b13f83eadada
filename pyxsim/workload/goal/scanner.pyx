"""Reads the text form of GOAL, chunk by chunk.

Its grammar is that of LogGOPSim's txt2bin: a statement per line, and `rank N {` ... `}` around those of a rank.
"""

from itertools import islice

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from pyxsim.errors import InputError, closest

MOST_COMPARED = 1000
LONGEST_LINE = 1 << 20
cdef uint64_t MOST = 2 ** 64 - 1
cdef uint32_t ANY = <uint32_t> -1
cdef enum:
    SEND = 1
    RECV = 2
    CALC = 3
_STATEMENTS = "'num_ranks N', 'rank N {', '}', an operation, or a dependency"
_OPERATIONS = "'send', 'recv' or 'calc'"


cdef inline bint letter(uint8_t c) noexcept nogil:
    return c'a' <= c <= c'z' or c'A' <= c <= c'Z'


cdef inline bint digit(uint8_t c) noexcept nogil:
    return c'0' <= c <= c'9'


cdef class Scanner:
    cdef readonly int64_t count
    cdef str file
    cdef bytes rest
    cdef int64_t line, rank, ops, edges
    cdef bint commented
    cdef dict labels
    cdef list done
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef object columns, dependencies
    cdef uint8_t[::1] kind, cpu, nic, at_start
    cdef uint64_t[::1] size
    cdef uint32_t[::1] peer, tag, after, before

    def __init__(self, file):
        self.file, self.rest, self.labels, self.done = file, b"", {}, []
        self.line, self.rank, self.count = 0, -1, -1
        self.clear()

    def feed(self, bytes chunk):
        cdef bytes text = self.rest + (chunk or b"\n")
        cdef const uint8_t *start = text
        cdef const uint8_t *stop = start + len(text)
        cdef const uint8_t *newline
        while True:
            newline = <const uint8_t *> memchr(start, c'\n', stop - start)
            if newline == NULL:
                break
            self.line += 1
            self.at, self.end = start, newline
            if newline > start and (newline - 1)[0] == c'\r':
                self.end = newline - 1
            self.statements()
            start = newline + 1
        if stop - start > LONGEST_LINE:
            self.line += 1
            raise self.fault("the line is too long", f"at most {LONGEST_LINE} characters")
        self.rest = text[start - <const uint8_t *> text:]
        if not chunk:
            if self.commented:
                raise self.fault("the comment has no end", "'*/'")
            if self.rank >= 0:
                raise self.fault(f"rank {self.rank} has no end", "'}'")
        done, self.done = self.done, []
        return done

    cdef clear(self):
        self.ops = self.edges = 0
        self.labels.clear()
        self.resize(64)
        self.widen(64)

    cdef resize(self, int64_t room):
        """Make room for operations."""
        types = (np.uint8, np.uint64, np.uint32, np.uint32, np.uint8, np.uint8)
        columns = [np.empty(room, kind) for kind in types]
        if self.ops:
            for new, old in zip(columns, self.columns):
                new[:self.ops] = old[:self.ops]
        self.columns = columns
        self.kind, self.size, self.peer, self.tag, self.cpu, self.nic = columns

    cdef widen(self, int64_t room):
        """Make room for dependencies."""
        columns = [np.empty(room, kind) for kind in (np.uint32, np.uint32, np.uint8)]
        if self.edges:
            for new, old in zip(columns, self.dependencies):
                new[:self.edges] = old[:self.edges]
        self.dependencies = columns
        self.after, self.before, self.at_start = columns

    cdef fault(self, problem, allowed=None, given=None):
        return InputError(problem, file=f"{self.file}:{self.line}", allowed=allowed, given=given)

    cdef wrong(self, allowed):
        """The fault of what stands next."""
        if self.at >= self.end:
            return self.fault("the line ends early", allowed)
        cdef const uint8_t *stop = self.at + 1
        while stop < self.end and stop[0] not in b" \t:{}" and stop - self.at < 40:
            stop += 1
        word = self.at[:stop - self.at].decode("utf-8", "replace")
        return self.fault(f"unexpected '{word}'", allowed)

    # -- words --------------------------------------------------------------------------------------------------------

    cdef inline void blanks(self) noexcept:
        while self.at < self.end and (self.at[0] == c' ' or self.at[0] == c'\t'):
            self.at += 1

    cdef inline bint sign(self, uint8_t c) noexcept:
        """Take a character if it is next."""
        if self.at < self.end and self.at[0] == c:
            self.at += 1
            self.blanks()
            return True
        return False

    cdef inline int64_t word(self) noexcept:
        """The length of the word that is next."""
        cdef const uint8_t *stop = self.at
        if stop < self.end and letter(stop[0]):
            stop += 1
            while stop < self.end and (letter(stop[0]) or digit(stop[0]) or stop[0] == c'_'):
                stop += 1
        return stop - self.at

    cdef inline bint take(self, const char *word, int64_t length) noexcept:
        """Take a word if it is next."""
        if self.word() != length or memcmp(self.at, word, length) != 0:
            return False
        self.at += length
        self.blanks()
        return True

    cdef uint64_t number(self, what) except? 0:
        cdef uint64_t value = 0
        if self.at >= self.end or not digit(self.at[0]):
            raise self.wrong(f"{what}: a whole number")
        while self.at < self.end and digit(self.at[0]):
            if value > (MOST - (self.at[0] - c'0')) // 10:
                raise self.fault(f"{what} is out of range", f"a whole number up to {MOST}")
            value = 10 * value + (self.at[0] - c'0')
            self.at += 1
        self.blanks()
        return value

    cdef bint any_(self) noexcept:
        """Take -1 if it is next."""
        if self.end - self.at >= 2 and self.at[0] == c'-' and self.at[1] == c'1' and (
                self.end - self.at == 2 or not digit(self.at[2])):
            self.at += 2
            self.blanks()
            return True
        return False

    # -- statements ---------------------------------------------------------------------------------------------------

    cdef int statements(self) except -1:
        cdef int64_t length
        cdef bytes label
        while True:
            self.blanks()
            if self.commented and not self.comment_ends():
                return 0
            self.blanks()
            if self.at == self.end:
                return 0
            if self.at[0] == c'/' and self.end - self.at > 1 and self.at[1] in b"/*":
                if self.at[1] == c'/':
                    return 0
                self.commented = True
                self.at += 2
                continue
            if self.rank < 0:
                self.outside()
                continue
            if self.sign(c'}'):
                self.close()
                continue
            if self.operation():
                continue
            length = self.word()
            if not length:
                raise self.wrong(f"'}}', a label, {_OPERATIONS}")
            label = self.at[:length]
            self.at += length
            self.blanks()
            if self.sign(c':'):
                if label in self.labels:
                    raise self.fault(f"label '{label.decode()}' occurs twice in rank {self.rank}", "another label")
                self.labels[label] = self.ops
                if not self.operation():
                    raise self.wrong(_OPERATIONS)
            elif self.take(b"requires", 8):
                self.dependency(label, False)
            elif self.take(b"irequires", 9):
                self.dependency(label, True)
            else:
                raise self.wrong(f"':', 'requires' or 'irequires' after label '{label[:40].decode()}'")

    cdef bint comment_ends(self) noexcept:
        while self.at + 1 < self.end:
            if self.at[0] == c'*' and self.at[1] == c'/':
                self.at += 2
                self.commented = False
                return True
            self.at += 1
        self.at = self.end
        return False

    cdef int outside(self) except -1:
        """A statement outside ranks."""
        cdef uint64_t number
        if self.take(b"num_ranks", 9):
            number = self.number("the number of ranks")
            if self.count >= 0:
                raise self.fault("the number of ranks is given twice", "once")
            if not 0 < number < ANY:
                raise self.fault(f"{number} ranks", f"1 to {ANY - 1}")
            self.count = number
        elif self.take(b"rank", 4):
            number = self.number("the number of a rank")
            if self.count < 0:
                raise self.fault("the number of ranks is not known yet", "'num_ranks N' before the first rank")
            if number >= <uint64_t> self.count:
                raise self.fault(f"there is no rank {number}", f"ranks 0 to {self.count - 1}")
            if not self.sign(c'{'):
                raise self.wrong("'{'")
            self.rank = number
        else:
            raise self.wrong("'num_ranks N' or 'rank N {'")
        return 0

    cdef int close(self) except -1:
        columns = [column[:self.ops] for column in self.columns]
        columns += [column[:self.edges] for column in self.dependencies]
        self.done.append((self.rank, tuple(columns)))
        self.rank = -1
        self.clear()
        return 0

    cdef int dependency(self, bytes label, bint at_start) except -1:
        cdef int64_t length = self.word()
        if not length:
            raise self.wrong("a label")
        cdef bytes other = self.at[:length]
        first, second = self.labels.get(label), self.labels.get(other)
        if first is None or second is None:
            missing = (label if first is None else other).decode()
            near = closest(missing, [each.decode() for each in islice(self.labels, MOST_COMPARED)])
            raise self.fault(f"rank {self.rank} has no label '{missing}' yet", f"a label of a line above{near}")
        self.at += length
        if self.edges == self.after.shape[0]:
            self.widen(2 * self.edges)
        self.after[self.edges], self.before[self.edges], self.at_start[self.edges] = first, second, at_start
        self.edges += 1
        return self.line_ends("the end of the line")

    cdef bint operation(self) except -1:
        """Read an operation if one is next."""
        cdef uint64_t peer = 0, size
        cdef uint32_t tag = 0
        cdef uint8_t cpu = 0, nic = 0
        cdef int kind
        if self.take(b"send", 4):
            kind = SEND
        elif self.take(b"recv", 4):
            kind = RECV
        elif self.take(b"calc", 4):
            kind = CALC
        else:
            return False
        size = self.number("nanoseconds" if kind == CALC else "bytes")
        if kind != CALC:
            if not self.sign(c'b'):
                raise self.wrong("'b' after the number of bytes")
            if not (self.take(b"to", 2) if kind == SEND else self.take(b"from", 4)):
                raise self.wrong("'to'" if kind == SEND else "'from'")
            if kind == RECV and self.any_():
                peer = ANY
            else:
                peer = self.number("the number of a rank")
                if peer >= <uint64_t> self.count:
                    raise self.fault(f"there is no rank {peer}", f"ranks 0 to {self.count - 1}")
        while self.at < self.end and self.at[0] != c'/':
            # As in txt2bin, tags count modulo 2^32; CPUs and NICs modulo 256.
            if self.take(b"cpu", 3):
                cpu = <uint8_t> self.number("the number of a CPU")
            elif kind != CALC and self.take(b"nic", 3):
                nic = <uint8_t> self.number("the number of a NIC")
            elif kind != CALC and self.take(b"tag", 3):
                tag = ANY if self.any_() else <uint32_t> self.number("the tag")
            else:
                raise self.wrong("'cpu N' or the end of the line" if kind == CALC else
                                 "'tag N', 'cpu N', 'nic N' or the end of the line")
        if self.ops == self.kind.shape[0]:
            if self.ops >= ANY:
                raise self.fault("the rank has too many operations", f"at most {ANY}")
            self.resize(2 * self.ops)
        self.kind[self.ops], self.size[self.ops], self.peer[self.ops] = kind, size, <uint32_t> peer
        self.tag[self.ops], self.cpu[self.ops], self.nic[self.ops] = tag, cpu, nic
        self.ops += 1
        return True

    cdef int line_ends(self, allowed) except -1:
        self.blanks()
        if self.at < self.end and self.at[0] != c'/':
            raise self.wrong(allowed)
        return 0
