#pragma once

#include <sinew/core/call/cost.hpp>

/// The shares of a link's rate that carry data of users. Datasheets give the rate of the signals.
namespace sinew {

/// The share of an NVLink whose generation is unknown. Source: NCCL's topo.h, 20.0 of 25 GB/s.
inline constexpr double kNvLinkPayloadShare = 0.80;
/// The share of PCI Express. Source: NCCL's topo.h, 12.0 of the 15.75 GB/s of a link with 16 lanes of generation 3.
inline constexpr double kPciPayloadShare = 0.76;
/// The share of a NIC. Source: NVIDIA's answers in nccl-tests issues 119 and 319: 24 GB/s of 200 Gbit/s, and 48 GB/s of
/// 400.
inline constexpr double kNicPayloadShare = 0.96;
/// The bytes per second between the sockets of a host, one way. Source: NCCL's topo.h, AMD_BW. Its figures for Intel
/// are 10 to 40 GB/s.
inline constexpr double kSocketsPayload = 16e9;

/// The latency of a message by InfiniBand or RoCE, from the kernel that sends it to the kernel that uses it.
/// Source: NCCL's tuning table has 14 us for a Simple step of a ring. The step is data and a flush.
inline constexpr Seconds kRdmaLatency = 7e-6;
/// The same by EFA.
/// Source: the all_gather runs of crazyguitar/aws-gpu-communication-benchmark. Each host of a ring takes 83 us there:
///         data, a flush, and seven steps over NVLink of 3.4 us.
inline constexpr Seconds kEfaLatency = 30e-6;
/// The same by sockets. Assumed: as by EFA, since both hosts' processors handle each message there, too.
inline constexpr Seconds kSocketLatency = 30e-6;

}  // namespace sinew
