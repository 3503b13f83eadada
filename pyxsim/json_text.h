/* The two loops over bytes in which reading JSON spends its time: 16 bytes at a time where the processor can. */
#ifndef PYXSIM_JSON_TEXT_H
#define PYXSIM_JSON_TEXT_H

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The next quote, backslash or byte below 0x20 from `at` on; a zero byte stands at `end`. */
static inline const uint8_t *pyxsim_skip_plain(const uint8_t *at, const uint8_t *end) {
#ifdef __SSE2__
    while (end - at >= 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        const __m128i low = _mm_cmpeq_epi8(_mm_max_epu8(bytes, _mm_set1_epi8(0x20)), bytes); /* at least 0x20 */
        const __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                           _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        const int found = _mm_movemask_epi8(marks) | (_mm_movemask_epi8(low) ^ 0xFFFF);
        if (found)
            return at + __builtin_ctz((unsigned)found);
        at += 16;
    }
#endif
    while (*at >= 0x20 && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* The next byte that is neither a space nor a line break nor a tab. */
static inline const uint8_t *pyxsim_skip_blanks(const uint8_t *at, const uint8_t *end) {
    if (*at > ' ')
        return at;
#ifdef __SSE2__
    while (end - at >= 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        const __m128i blanks = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')),
                                                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n'))),
                                            _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')),
                                                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'))));
        const int others = _mm_movemask_epi8(blanks) ^ 0xFFFF;
        if (others)
            return at + __builtin_ctz((unsigned)others);
        at += 16;
    }
#endif
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')
        at++;
    return at;
}

#endif
