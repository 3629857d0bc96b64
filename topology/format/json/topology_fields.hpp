#pragma once

#include <type_traits>

#include <sinew/topology/format/json/json_fields.hpp>
#include <sinew/topology/machine.hpp>

/// The JSON form of Machine: every struct's fields, in the order in which they are written.
namespace sinew::json_fields {

template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Figure>& f) {
  v("value", f.value);
  v("source", f.source);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Core>& c) {
  v("package", c.package);
  v("numa_node", c.numa_node);
  v("cpus", c.cpus);
  v("usable", c.usable);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Package>& p) {
  v("id", p.id);
  v("model", p.model);
  v("cores", p.cores);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<NumaNode>& n) {
  v("id", n.id);
  v("package", n.package);
  v("memory_bytes", n.memory_bytes);
  v("cores", n.cores);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Cache>& c) {
  v("level", c.level);
  v("bytes", c.bytes);
  v("line_bytes", c.line_bytes);
  v("cores", c.cores);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<PciDevice>& d) {
  v("address", d.address);
  v("kind", d.kind);
  v("vendor_id", d.vendor_id);
  v("device_id", d.device_id);
  v("name", d.name);
  v("parent", d.parent);
  v("numa_node", d.numa_node);
  v("root", d.root);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Gpu>& g) {
  v("name", g.name);
  v("pci", g.pci);
  v("numa_node", g.numa_node);
  v("uuid", g.uuid);
  v("memory_bytes", g.memory_bytes);
  v("mig", g.mig);
  v("nvlinks", g.nvlinks);
  v("nvlink_generation", g.nvlink_generation);
  v.optional("xgmi_links", g.xgmi_links);
  v.optional("architecture", g.architecture);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<GpuPeer>& p) {
  v("from", p.from);
  v("to", p.to);
  v("read", p.read);
  v("write", p.write);
  v("nvlink", p.nvlink);
  v("atomics", p.atomics);
  v("why", p.why);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<NvSwitch>& s) {
  v("pci", s.pci);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<RdmaPort>& p) {
  v("device", p.device);
  v("number", p.number);
  v("state", p.state);
  v("gid", p.gid);
  v("mtu_bytes", p.mtu_bytes);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<NicAddress>& a) {
  v("text", a.text);
  v("prefix", a.prefix);
  v("v6", a.v6);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Nic>& n) {
  v("name", n.name);
  v("kind", n.kind);
  v("loopback", n.loopback);
  v("up", n.up);
  v("running", n.running);
  v("driver", n.driver);
  v("hardware_address", n.hardware_address);
  v("mtu_bytes", n.mtu_bytes);
  v("addresses", n.addresses);
  v("bytes_per_s", n.bytes_per_s);
  v("rdma", n.rdma);
  v("pci", n.pci);
  v("numa_node", n.numa_node);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Link>& l) {
  v("kind", l.kind);
  v("from", l.from);
  v("to", l.to);
  v("bytes_per_s", l.bytes_per_s);
  v("latency_s", l.latency_s);
  v("width", l.width);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Unseen>& u) {
  v("what", u.what);
  v("why", u.why);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<CpuQuota>& q) {
  v("cores", q.cores);
  v("where", q.where);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Ignored>& i) {
  v("file", i.file);
  v("lines", i.lines);
  v("what", i.what);
  v("why", i.why);
  v("known", i.known);
}
template <class V>
void fields(V&& v, typename std::decay_t<V>::template Access<Machine>& m) {
  v("identity", m.identity);
  v("host_name", m.host_name);
  v("system", m.system);
  v("architecture", m.architecture);
  v("memory_bytes", m.memory_bytes);
  v("usable_cores", m.usable_cores);
  v.optional("cpu_quota", m.cpu_quota);
  v("packages", m.packages);
  v("numa_nodes", m.numa_nodes);
  v("caches", m.caches);
  v("cores", m.cores);
  v("pci_devices", m.pci_devices);
  v("gpus", m.gpus);
  v("gpu_peers", m.gpu_peers);
  v("nvswitches", m.nvswitches);
  v("nics", m.nics);
  v("links", m.links);
  v("unseen", m.unseen);
  v.optional("ignored", m.ignored);
}

}  // namespace sinew::json_fields
