/*
 * kernels/tables.h - the tables that kernels_choose() picks from.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_TABLES_H
#define KERNELS_TABLES_H

#include "kernels/kernels.h"

extern const kernels_table kernels_reference;
#if defined(__x86_64__)
extern const kernels_table kernels_avx2;
extern const kernels_table kernels_avx512;

/* What this processor and its operating system allow. */
bool cpu_has_avx2(void);   /* AVX2, FMA and F16C                           */
bool cpu_has_avx512(void); /* AVX-512 F, BW, DQ, VL and VNNI, and all of AVX2's */
#endif

#endif /* KERNELS_TABLES_H */
