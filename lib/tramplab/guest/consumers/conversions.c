/*
 * Conversions between light structures of registers, one at a time, to be counted without a link around them (core/ways.c). None is a
 * kernel's.
 */
#include "lab.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "ways.h"

#pragma clang section text = ".ways"

/* That the two lie apart is known, as where they are locals. */
#define CONVERSION(name, source, target) \
void lab_convert_##name(source *restrict from, target *restrict to) { lab_##name(from, to); }
CONVERSION(to_fprobe, struct ftrace_regs, struct lab_fprobe_light)
CONVERSION(to_bpf, struct lab_fprobe_light, struct lab_bpf_light)
CONVERSION(to_perf, struct lab_bpf_light, struct lab_perf_light)
CONVERSION(to_regs, struct lab_perf_light, struct pt_regs)
CONVERSION(back, struct lab_bpf_light, struct ftrace_regs)
#endif
