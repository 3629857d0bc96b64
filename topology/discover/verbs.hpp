#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <sinew/core/base/export.hpp>

/// libibverbs, loaded at run time; what is used of it is declared here.
/// Source: rdma-core, libibverbs/verbs.h and libibverbs.map.in: the symbols of version IBVERBS_1.1, which do not change
/// any more.
namespace sinew::verbs {

using Device = struct DeviceHandle*;
using Context = struct ContextHandle*;

/// What the exported ibv_query_port fills: the beginning of ibv_port_attr. verbs.h hides that function behind an inline
/// one of the same name, whose struct still grows.
struct PortAttributes {
  int state;
  int max_mtu;
  int active_mtu;  ///< 1: 256 bytes, each step doubles it
  int gid_table_length;
  std::uint32_t capabilities;
  std::uint32_t max_message_bytes;
  std::uint32_t bad_pkey_count;
  std::uint32_t qkey_violation_count;
  std::uint16_t pkey_table_length;
  std::uint16_t lid;
  std::uint16_t sm_lid;
  std::uint8_t lmc;
  std::uint8_t max_vl;
  std::uint8_t sm_sl;
  std::uint8_t subnet_timeout;
  std::uint8_t init_type_reply;
  std::uint8_t active_width;
  std::uint8_t active_speed;
  std::uint8_t physical_state;
  std::uint8_t link_layer;
  std::uint8_t flags;
};

struct Functions {
  Device* (*device_list)(int*) = nullptr;  ///< ends with null; null and errno where verbs are not there at all
  void (*free_device_list)(Device*) = nullptr;
  const char* (*device_name)(Device) = nullptr;
  Context (*open)(Device) = nullptr;  ///< null and errno where it cannot be used
  int (*close)(Context) = nullptr;
  int (*query_port)(Context, std::uint8_t, PortAttributes*) = nullptr;  ///< 0, or an errno
};

/// The library, or why there is none.
SINEW_API std::variant<Functions, std::string> load();

}  // namespace sinew::verbs
