#pragma once

// SINEW_KERNEL stands before each function that kernels call: the compiler of the image has attributes of its own.
#ifndef SINEW_KERNEL
#define SINEW_KERNEL
#endif
