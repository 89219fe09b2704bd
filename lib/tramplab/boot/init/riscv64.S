#include "../../native/child/riscv64.S"
