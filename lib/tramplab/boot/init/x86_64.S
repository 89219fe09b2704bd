#include "../../native/child/x86_64.S"
