"""Bit masks of VCs, routers and lanes: 64 to a word, least significant first."""

from libc.stdint cimport int32_t, uint64_t


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pyxsim_lowest(x) __builtin_ctzll(x)
    #define pyxsim_highest(x) (63 - __builtin_clzll(x))
    #define pyxsim_seldom(x) __builtin_expect(!!(x), 0)
    #define pyxsim_prefetch(x) __builtin_prefetch(x)
    #else
    static inline int pyxsim_lowest(unsigned long long x) { int n = 0; while (!(x & 1)) { x >>= 1; n++; } return n; }
    static inline int pyxsim_highest(unsigned long long x) { int n = 0; while (x >>= 1) n++; return n; }
    #define pyxsim_seldom(x) (x)
    #define pyxsim_prefetch(x) ((void) (x))
    #endif
    /* Bit i of the result is byte i, each of which is 0 or 1. */
    static inline unsigned long long pyxsim_bits_of(const unsigned char* bytes) {
        unsigned long long bits = 0;
        for (int word = 0; word < 8; word++) {
            unsigned long long eight = 0;
            for (int i = 0; i < 8; i++) eight |= (unsigned long long) bytes[8 * word + i] << 8 * i;
            bits |= (eight * 0x0102040810204080ULL >> 56) << 8 * word;   /* byte i to bit 56 + i, and no two meet */
        }
        return bits;
    }
    """
    int lowest "pyxsim_lowest" (uint64_t bits) noexcept nogil
    int highest "pyxsim_highest" (uint64_t bits) noexcept nogil
    bint seldom "pyxsim_seldom" (bint condition) noexcept nogil   # a hint that the condition is rarely true
    void prefetch "pyxsim_prefetch" (void* x) noexcept nogil
    uint64_t bits_of "pyxsim_bits_of" (const unsigned char* bytes) noexcept nogil   # 64 bytes, each 0 or 1


cdef inline void set_bit(uint64_t* mask, int32_t place) noexcept nogil:
    mask[place >> 6] |= (<uint64_t> 1) << (place & 63)


cdef inline void clear_bit(uint64_t* mask, int32_t place) noexcept nogil:
    mask[place >> 6] &= ~((<uint64_t> 1) << (place & 63))


cdef inline bint has_bit(uint64_t* mask, int32_t place) noexcept nogil:
    return (mask[place >> 6] >> (place & 63)) & 1


cdef inline uint64_t bits_from(int32_t place) noexcept nogil:
    """All bits of a word from a place in [0, 64] on, without a branch."""
    return (~(<uint64_t> 0) << (place & 63)) & -<uint64_t> (place < 64)


cdef inline int32_t next_bit(uint64_t* mask, int32_t start, int32_t stop) noexcept nogil:
    """The first set bit in [start, stop), or -1."""
    cdef int32_t word, last, found
    cdef uint64_t bits
    if start >= stop:
        return -1
    word = start >> 6
    last = (stop - 1) >> 6
    bits = mask[word] >> (start & 63) << (start & 63)
    while True:
        if bits:
            found = word * 64 + lowest(bits)
            return found if found < stop else -1
        if word == last:
            return -1
        word += 1
        bits = mask[word]


cdef inline bint any_bit(uint64_t* mask, int32_t words) noexcept nogil:
    cdef int32_t word
    for word in range(words):
        if mask[word]:
            return True
    return False
