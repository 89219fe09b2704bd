/* The saved pc is changed in both sets of registers. */
#define EVERY true
#include "saved_pc.inc"
