/*
 * kernels/cpu/detect.c - which vector instructions may be used here.
 *
 * Asks the processor itself: the compiler's __builtin_cpu_supports() would bring
 * a constructor into every plugin that links these kernels.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/tables.h"

#if defined(__x86_64__)

#include <cpuid.h>

/* State components that the operating system saves: bits 1, 2 are XMM and YMM;
 * 5, 6, 7 the masks and both halves of ZMM. */
static uint32_t saved_state(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

bool cpu_has_avx2(void)
{
    unsigned a, b, c, d;
    if ((saved_state() & 0x06) != 0x06 || !__get_cpuid(1, &a, &b, &c, &d))
        return false;
    if (!(c & bit_FMA) || !(c & bit_F16C) || !(c & bit_AVX))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

bool cpu_has_avx512(void)
{
    unsigned a, b, c, d;
    unsigned wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (!cpu_has_avx2() || (saved_state() & 0xe6) != 0xe6)
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    return (b & wanted) == wanted && (c & bit_AVX512VNNI);
}

#endif
