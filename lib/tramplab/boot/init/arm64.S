#include "../../native/child/arm64.S"
