/* It is changed in the newest set only: what that exception had interrupted goes on between the two. */
#define EVERY false
#include "saved_pc.inc"
