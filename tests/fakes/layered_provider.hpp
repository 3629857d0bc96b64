#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

/// The parts that fake providers of libfabric share. Each of them stands on tcp;ofi_rxm and replaces some functions of
/// its objects.
namespace sinew::fake {

inline constexpr const char* kProviderUnderneath = "tcp;ofi_rxm";

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

inline void rename_to(fi_info& info, const char* name) {
  std::free(info.fabric_attr->prov_name);
  info.fabric_attr->prov_name = name == nullptr ? nullptr : ::strdup(name);
}

/// Returns a copy of the question that is addressed to the provider underneath.
inline Info question_underneath(const fi_info* hints) {
  Info copy(hints == nullptr ? fi_allocinfo() : fi_dupinfo(hints));
  if (copy->fabric_attr == nullptr)
    copy->fabric_attr = static_cast<fi_fabric_attr*>(std::calloc(1, sizeof(fi_fabric_attr)));
  rename_to(*copy, kProviderUnderneath);
  return copy;
}

/// Puts `own` in place of the table of an object, which is the same one for all objects of the provider underneath.
template <class Ops>
void replace(Ops*& table, Ops& real, Ops& own, void (*change)(Ops&)) {
  static std::once_flag made;
  std::call_once(made, [&] {
    real = *table;
    own = real;
    change(own);
  });
  table = &own;
}

/// Opens fabrics, domains and endpoints underneath. `Fake` has these static functions:
///   question(hints)        the question to the provider underneath
///   change_endpoint(ep)    replaces functions of an endpoint
///   register_memory(..)    regattr of a domain
template <class Fake>
struct Layer {
  static inline fi_ops_mr real_mr;
  static inline fi_ops_domain real_domain;
  static inline fi_ops_fabric real_fabric;

  static int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** made, void* context) {
    const Info asked = Fake::question(info);
    if (const int failed = real_domain.endpoint(domain, asked.get(), made, context)) return failed;
    Fake::change_endpoint(**made);
    return 0;
  }

  static int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void* context) {
    static fi_ops_domain own;
    static fi_ops_mr own_mr;
    const Info asked = Fake::question(info);
    if (const int failed = real_fabric.domain(fabric, asked.get(), made, context)) return failed;
    replace<fi_ops_domain>((*made)->ops, real_domain, own, [](fi_ops_domain& d) { d.endpoint = open_endpoint; });
    replace<fi_ops_mr>((*made)->mr, real_mr, own_mr, [](fi_ops_mr& m) { m.regattr = Fake::register_memory; });
    return 0;
  }

  static int open_fabric(fi_fabric_attr* attributes, fid_fabric** made, void* context) {
    static fi_ops_fabric own;
    fi_fabric_attr asked = *attributes;
    asked.prov_name = const_cast<char*>(kProviderUnderneath);
    if (const int failed = fi_fabric(&asked, made, context)) return failed;
    replace<fi_ops_fabric>((*made)->ops, real_fabric, own, [](fi_ops_fabric& f) { f.domain = open_domain; });
    return 0;
  }

  static fi_provider provider(const char* name, decltype(fi_provider::getinfo) get_info) {
    fi_provider p{};
    p.version = FI_VERSION(1, 0);
    p.fi_version = FI_VERSION(1, 17);
    p.name = name;
    p.getinfo = get_info;
    p.fabric = open_fabric;
    p.cleanup = [] {};
    return p;
  }
};

}  // namespace sinew::fake
