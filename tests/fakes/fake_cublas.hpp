#pragma once

// Tests may ask this of the fake libcublas.so.13 beside cuBLAS's own interface. Its products run on the streams of the
// fake devices, in memory of these devices. A call that the real library would refuse returns its status.
extern "C" {

/// The next call of this function of cuBLAS, such as "cublasCreate_v2", returns this status.
void fake_cublas_fail(const char* function, int status);
/// The handles that exist.
int fake_cublas_handles();
/// The products that were enqueued, and how many of them with TF32. Calls of several products count once.
int fake_cublas_products();
int fake_cublas_tf32_products();
}
