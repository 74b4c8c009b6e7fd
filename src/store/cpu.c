#include "store/cpu.h"
#include <cpuid.h>

enum { A, B, C, D };

/* CPUID leaf, subleaf, register, bit; names as in /proc/cpuinfo. Only what changes which instructions work. */
static const struct {
    const char *name;
    u32 leaf, sub;
    u8 reg, bit;
} table[] = {
    { "sse3", 1, 0, C, 0 },          { "pclmulqdq", 1, 0, C, 1 },     { "ssse3", 1, 0, C, 9 },         { "fma", 1, 0, C, 12 },
    { "cx16", 1, 0, C, 13 },         { "sse4_1", 1, 0, C, 19 },       { "sse4_2", 1, 0, C, 20 },       { "movbe", 1, 0, C, 22 },
    { "popcnt", 1, 0, C, 23 },       { "aes", 1, 0, C, 25 },          { "xsave", 1, 0, C, 26 },        { "avx", 1, 0, C, 28 },
    { "f16c", 1, 0, C, 29 },         { "rdrand", 1, 0, C, 30 },       { "fsgsbase", 7, 0, B, 0 },      { "bmi1", 7, 0, B, 3 },
    { "hle", 7, 0, B, 4 },           { "avx2", 7, 0, B, 5 },          { "bmi2", 7, 0, B, 8 },          { "rtm", 7, 0, B, 11 },
    { "avx512f", 7, 0, B, 16 },      { "avx512dq", 7, 0, B, 17 },     { "rdseed", 7, 0, B, 18 },       { "adx", 7, 0, B, 19 },
    { "avx512ifma", 7, 0, B, 21 },   { "clflushopt", 7, 0, B, 23 },   { "clwb", 7, 0, B, 24 },         { "avx512cd", 7, 0, B, 28 },
    { "sha_ni", 7, 0, B, 29 },       { "avx512bw", 7, 0, B, 30 },     { "avx512vl", 7, 0, B, 31 },     { "avx512vbmi", 7, 0, C, 1 },
    { "pku", 7, 0, C, 4 },           { "waitpkg", 7, 0, C, 5 },       { "avx512_vbmi2", 7, 0, C, 6 },  { "gfni", 7, 0, C, 8 },
    { "vaes", 7, 0, C, 9 },          { "vpclmulqdq", 7, 0, C, 10 },   { "avx512_vnni", 7, 0, C, 11 },  { "avx512_bitalg", 7, 0, C, 12 },
    { "avx512_vpopcntdq", 7, 0, C, 14 }, { "rdpid", 7, 0, C, 22 },    { "movdiri", 7, 0, C, 27 },      { "movdir64b", 7, 0, C, 28 },
    { "avx512_vp2intersect", 7, 0, D, 8 }, { "serialize", 7, 0, D, 14 }, { "amx_bf16", 7, 0, D, 22 },  { "avx512_fp16", 7, 0, D, 23 },
    { "amx_tile", 7, 0, D, 24 },     { "amx_int8", 7, 0, D, 25 },     { "sha512", 7, 1, A, 0 },        { "avx_vnni", 7, 1, A, 4 },
    { "avx512_bf16", 7, 1, A, 5 },   { "cmpccxadd", 7, 1, A, 7 },     { "amx_fp16", 7, 1, A, 21 },     { "avx_ifma", 7, 1, A, 23 },
    { "lahf_lm", 0x80000001, 0, C, 0 }, { "abm", 0x80000001, 0, C, 5 }, { "sse4a", 0x80000001, 0, C, 6 }, { "xop", 0x80000001, 0, C, 11 },
    { "fma4", 0x80000001, 0, C, 16 }, { "tbm", 0x80000001, 0, C, 21 }, { "rdtscp", 0x80000001, 0, D, 27 },
};
_Static_assert(sizeof(table) / sizeof(table[0]) <= 64, "features are bits of a word");

const char *cpu_feature_name(u32 n) { return n < ARRAY_COUNT(table) ? table[n].name : NULL; }

/* Each CPUID is an exit of a virtual machine, some 10 us: so each leaf is asked once. */
static void ask(const u32 max[2], u32 leaf, u32 sub, u32 r[4])
{
    r[A] = r[B] = r[C] = r[D] = 0;
    if (leaf <= max[leaf >> 31])
        __cpuid_count(leaf, sub, r[A], r[B], r[C], r[D]);
}

void cpu_here(struct cpu *c)
{
    u32 max[2] = { __get_cpuid_max(0, NULL), __get_cpuid_max(0x80000000, NULL) };
    u32 r[4] = { 0 }, leaf = 0, sub = 0, xsave = 0, low, high;
    *c = (struct cpu){ 0 };
    for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
        if (table[i].leaf != leaf || table[i].sub != sub) {
            leaf = table[i].leaf;
            sub = table[i].sub;
            ask(max, leaf, sub, r);
            if (leaf == 1)
                xsave = r[C] & bit_OSXSAVE;
        }
        if (r[table[i].reg] >> table[i].bit & 1)
            c->features |= 1ull << i;
    }
    if (!xsave)
        return;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    c->xcr0 = (u64)high << 32 | low;
    ask(max, 13, 0, r);
    c->xsave_size = r[B];
}
