// Compares transports/nccl/library/nccl_api.hpp with NCCL's own header, by static_assert. This file is compiled only if
// that header is installed, and has nothing to run.
#include <cstddef>
#include <type_traits>

#include <nccl.h>

#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace {

using namespace sinew;

/// Passed the same way: pointers, integers and enumerators of one size, structures of one size.
template <class Ours, class Theirs>
struct Alike {
  static constexpr bool kNumbers =
      (std::is_enum_v<Ours> || std::is_integral_v<Ours>)&&(std::is_enum_v<Theirs> || std::is_integral_v<Theirs>);
  static constexpr bool kStructures = std::is_class_v<Ours> && std::is_class_v<Theirs> &&
                                      std::is_trivially_copyable_v<Ours> && alignof(Ours) == alignof(Theirs);
  static constexpr bool kPointers = std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  static constexpr bool value = (kNumbers || kStructures || kPointers) && sizeof(Ours) == sizeof(Theirs);
};
template <class R, class... A, class S, class... B>
struct Alike<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return Alike<R, S>::value && (Alike<A, B>::value && ...);
    } else {
      return false;
    }
  }();
};

#define SINEW_SAME_FUNCTION(ours, theirs) static_assert(Alike<decltype(nccl::Api::ours), decltype(&theirs)>::value)
#define SINEW_SAME_VALUE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
#define SINEW_SAME_FIELD(ours, theirs)                                                \
  static_assert(offsetof(nccl::CommConfig, ours) == offsetof(ncclConfig_t, theirs) && \
                Alike<decltype(nccl::CommConfig::ours), decltype(ncclConfig_t::theirs)>::value)

SINEW_SAME_FUNCTION(get_version, ncclGetVersion);
SINEW_SAME_FUNCTION(get_unique_id, ncclGetUniqueId);
SINEW_SAME_FUNCTION(comm_init_rank_config, ncclCommInitRankConfig);
SINEW_SAME_FUNCTION(comm_finalize, ncclCommFinalize);
SINEW_SAME_FUNCTION(comm_destroy, ncclCommDestroy);
SINEW_SAME_FUNCTION(comm_abort, ncclCommAbort);
SINEW_SAME_FUNCTION(comm_get_async_error, ncclCommGetAsyncError);
SINEW_SAME_FUNCTION(get_error_string, ncclGetErrorString);
SINEW_SAME_FUNCTION(get_last_error, ncclGetLastError);
SINEW_SAME_FUNCTION(red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum);
SINEW_SAME_FUNCTION(red_op_destroy, ncclRedOpDestroy);
SINEW_SAME_FUNCTION(reduce, ncclReduce);
SINEW_SAME_FUNCTION(broadcast, ncclBroadcast);
SINEW_SAME_FUNCTION(all_reduce, ncclAllReduce);
SINEW_SAME_FUNCTION(reduce_scatter, ncclReduceScatter);
SINEW_SAME_FUNCTION(all_gather, ncclAllGather);
SINEW_SAME_FUNCTION(send, ncclSend);
SINEW_SAME_FUNCTION(recv, ncclRecv);
SINEW_SAME_FUNCTION(group_start, ncclGroupStart);
SINEW_SAME_FUNCTION(group_end, ncclGroupEnd);
SINEW_SAME_FUNCTION(comm_split, ncclCommSplit);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
SINEW_SAME_FUNCTION(mem_alloc, ncclMemAlloc);
SINEW_SAME_FUNCTION(mem_free, ncclMemFree);
SINEW_SAME_FUNCTION(comm_register, ncclCommRegister);
SINEW_SAME_FUNCTION(comm_deregister, ncclCommDeregister);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
SINEW_SAME_FUNCTION(comm_window_register, ncclCommWindowRegister);
SINEW_SAME_FUNCTION(comm_window_deregister, ncclCommWindowDeregister);
SINEW_SAME_VALUE(nccl::kSymmetricWindow, NCCL_WIN_COLL_SYMMETRIC);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
SINEW_SAME_FUNCTION(all_to_all, ncclAlltoAll);
SINEW_SAME_FUNCTION(gather, ncclGather);
SINEW_SAME_FUNCTION(scatter, ncclScatter);
#endif

static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId) && alignof(nccl::UniqueId) == alignof(ncclUniqueId));

static_assert(sizeof(nccl::CommConfig) <= sizeof(ncclConfig_t));
SINEW_SAME_FIELD(size, size);
SINEW_SAME_FIELD(magic, magic);
SINEW_SAME_FIELD(version, version);
SINEW_SAME_FIELD(blocking, blocking);
SINEW_SAME_FIELD(cga_cluster_size, cgaClusterSize);
SINEW_SAME_FIELD(min_ctas, minCTAs);
SINEW_SAME_FIELD(max_ctas, maxCTAs);
SINEW_SAME_FIELD(net_name, netName);
SINEW_SAME_FIELD(split_share, splitShare);
static_assert([] {
  constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
  constexpr nccl::CommConfig kOurs;
  return kOurs.magic == kTheirs.magic && kOurs.blocking == kTheirs.blocking && kOurs.net_name == kTheirs.netName &&
         kOurs.split_share == kTheirs.splitShare;
}());
SINEW_SAME_VALUE(nccl::kColorless, NCCL_SPLIT_NOCOLOR);
SINEW_SAME_VALUE(nccl::kUndefined, NCCL_CONFIG_UNDEF_INT);
SINEW_SAME_VALUE(nccl::version_code(2, 28, 9), NCCL_VERSION(2, 28, 9));
SINEW_SAME_VALUE(nccl::kOldest, NCCL_VERSION(2, 18, 0));

SINEW_SAME_VALUE(nccl::Result::Success, ncclSuccess);
SINEW_SAME_VALUE(nccl::Result::UnhandledCudaError, ncclUnhandledCudaError);
SINEW_SAME_VALUE(nccl::Result::SystemError, ncclSystemError);
SINEW_SAME_VALUE(nccl::Result::InternalError, ncclInternalError);
SINEW_SAME_VALUE(nccl::Result::InvalidArgument, ncclInvalidArgument);
SINEW_SAME_VALUE(nccl::Result::InvalidUsage, ncclInvalidUsage);
SINEW_SAME_VALUE(nccl::Result::RemoteError, ncclRemoteError);
SINEW_SAME_VALUE(nccl::Result::InProgress, ncclInProgress);

SINEW_SAME_VALUE(nccl::DataType::Int8, ncclInt8);
SINEW_SAME_VALUE(nccl::DataType::Uint8, ncclUint8);
SINEW_SAME_VALUE(nccl::DataType::Int32, ncclInt32);
SINEW_SAME_VALUE(nccl::DataType::Uint32, ncclUint32);
SINEW_SAME_VALUE(nccl::DataType::Int64, ncclInt64);
SINEW_SAME_VALUE(nccl::DataType::Uint64, ncclUint64);
SINEW_SAME_VALUE(nccl::DataType::Float16, ncclFloat16);
SINEW_SAME_VALUE(nccl::DataType::Float32, ncclFloat32);
SINEW_SAME_VALUE(nccl::DataType::Float64, ncclFloat64);
SINEW_SAME_VALUE(nccl::DataType::Bfloat16, ncclBfloat16);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
SINEW_SAME_VALUE(nccl::DataType::Float8e4m3, ncclFloat8e4m3);
SINEW_SAME_VALUE(nccl::DataType::Float8e5m2, ncclFloat8e5m2);
#endif

SINEW_SAME_VALUE(nccl::RedOp::Sum, ncclSum);
SINEW_SAME_VALUE(nccl::RedOp::Prod, ncclProd);
SINEW_SAME_VALUE(nccl::RedOp::Max, ncclMax);
SINEW_SAME_VALUE(nccl::RedOp::Min, ncclMin);
SINEW_SAME_VALUE(nccl::RedOp::Avg, ncclAvg);

SINEW_SAME_VALUE(nccl::ScalarResidence::Device, ncclScalarDevice);
SINEW_SAME_VALUE(nccl::ScalarResidence::HostImmediate, ncclScalarHostImmediate);

}  // namespace
