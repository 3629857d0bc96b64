#pragma once

#include <sinew/transports/nccl/library/nccl_api.hpp>

// What tests may ask of the fake libnccl.so.2 beside NCCL's own interface. Ranks are threads of one process; the work
// runs on the streams of the fake device; a first call of a communicator, and some of the later ones, reach their
// stream only after NCCL was asked for its state. It checks its caller as NCCL does, and more: see misuse().
extern "C" {

enum FakeNcclFault : int {
  kFakeNcclLate,           ///< the rank's call stays where it is on its stream until fake_nccl_reset()
  kFakeNcclLingers,        ///< the rank's call does not end, and still writes for a while after an abort
  kFakeNcclAsyncError,     ///< the rank's call does not end, and its communicator has an asynchronous error
  kFakeNcclCallFails,      ///< the rank's call returns an error
  kFakeNcclIdFails,        ///< ncclGetUniqueId returns an error; rank is ignored
  kFakeNcclInitFails,      ///< ncclCommInitRankConfig returns an error on the rank
  kFakeNcclNoCuda,         ///< ... that of a driver which is too old
  kFakeNcclInitHangs,      ///< the rank never meets the others
  kFakeNcclVersion,        ///< ncclGetVersion gives `call`
  kFakeNcclMemoryFails,    ///< ncclMemAlloc returns an error; rank is the device
  kFakeNcclRegisterFails,  ///< ncclCommRegister or ncclCommWindowRegister returns an error on the rank
  kFakeNcclWindowHangs,    ///< the rank never comes to where a window is registered
  kFakeNcclSplitFails,     ///< ncclCommSplit returns an error on the rank
  kFakeNcclSplitHangs,     ///< the rank never comes to where a communicator is split
};

/// The `call`-th time from now on, 1 is the next, that a rank (of its communicator) does what the fault is about.
/// Once. The version lasts until the reset.
__attribute__((visibility("default"))) void fake_nccl_inject(FakeNcclFault fault, int rank, int call);
__attribute__((visibility("default"))) void fake_nccl_reset();
/// Communicators that were neither destroyed nor aborted.
__attribute__((visibility("default"))) int fake_nccl_live();
/// The first thing that no caller may do: use after an abort, an operator of another communicator, memory freed while a
/// communicator knew it; null: nothing.
__attribute__((visibility("default"))) const char* fake_nccl_misuse();
/// Pre-multiplied sums that are made and not destroyed.
__attribute__((visibility("default"))) int fake_nccl_operators();
/// Allocations of ncclMemAlloc that were not freed.
__attribute__((visibility("default"))) int fake_nccl_allocations();
/// Registrations and windows that were not taken back, of communicators that live.
__attribute__((visibility("default"))) int fake_nccl_registrations();
/// Communicators that came of a split, ever.
__attribute__((visibility("default"))) int fake_nccl_splits();
}
