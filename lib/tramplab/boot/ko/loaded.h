/* What a kernel wants of a file before it loads it as a module. */
#ifndef KO_LOADED_H
#define KO_LOADED_H

#include "kernel.h"

/* struct module, of which the loader wants the name and how to start. */
asm(".pushsection .gnu.linkonce.this_module, \"aw\"\n"
    ".balign 64\n"
    ".globl __this_module\n"
    "__this_module:\n"
    ".org " STRING(MODULE_NAME) "\n.asciz \"tramplab\"\n"
    ".org " STRING(MODULE_INIT) "\n.quad start\n"
    ".org " STRING(MODULE_SIZE) "\n"
    ".popsection");
#define INFO(name, text) static const char name[] __attribute__((section(".modinfo"), used, aligned(1))) = text
INFO(license, "license=Dual MIT/GPL");
INFO(name, "name=tramplab");
#ifdef VERMAGIC
INFO(vermagic, "vermagic=" VERMAGIC);
#endif
/* A kernel that compares checksums of symbols wants this section; most take a symbol that is not in it as it is. */
static const struct {
	unsigned long crc;
	char name[64 - sizeof(unsigned long)];
} versions[1] __attribute__((section("__versions"), used, aligned(8))) = { { 0, "" } };
/* Sections in which loaders want to put jumps of their own. */
#define SECTION(name) ".pushsection " name ", \"ax\"\n.byte 0\n.popsection\n"
#if defined(__aarch64__)
asm(SECTION(".plt") SECTION(".init.plt") SECTION(".text.ftrace_trampoline") SECTION(".init.text.ftrace_trampoline"));
#elif defined(__riscv)
asm(SECTION(".plt") SECTION(".got") SECTION(".got.plt"));
#endif

#endif
