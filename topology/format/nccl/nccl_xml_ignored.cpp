#include <string_view>

#include <fmt/format.h>

#include <sinew/topology/format/nccl/nccl_xml_parts.hpp>

namespace sinew::nccl_xml {
namespace {

struct KnownAttribute {
  std::string_view element;
  std::string_view attribute;
  const char* meaning;
};

/// What NCCL and RCCL write and no field of Machine holds.
constexpr KnownAttribute kKnownAttributes[] = {
    {"cpu", "vendor", "who made the CPU"},
    {"cpu", "familyid", "the CPU's family"},
    {"cpu", "modelid", "the CPU's model"},
    {"pci", "subsystem_vendor", "who made the board"},
    {"pci", "subsystem_device", "which board it is"},
    {"gpu", "rank", "the rank that used the GPU when the file was written"},
    {"gpu", "gdr", "whether NCCL used GPUDirect RDMA with the GPU"},
    {"gpu", "mlopart", "the part of the GPU that the rank used"},
    {"gpu", "sm", "an AMD GPU's number of compute units"},
    {"gpu", "arch", "HIP's flags of what the GPU can do"},
    {"gpu", "keep", "NCCL's mark of what its ranks use"},
    {"net", "dev", "the network plugin's number of the device"},
    {"net", "port", "the port of a device without RDMA"},
    {"net", "maxconn", "how many connections the network plugin allows"},
    {"net", "gdr", "whether the network plugin can do GPUDirect RDMA"},
    {"net", "net", "whether the network plugin sends and receives by it"},
    {"net", "coll", "whether the network reduces on its way"},
    {"net", "gin", "whether GPUs can start transfers by it"},
    {"net", "rma", "whether the network plugin has one-sided transfers by it"},
    {"net", "rail", "the number of its rail"},
    {"net", "plane", "the number of its plane"},
    {"net", "keep", "NCCL's mark of what its ranks use"},
};

const char* meaning_of(const UnreadXml& unread) {
  for (const KnownAttribute& known : kKnownAttributes) {
    if (known.element == unread.element && known.attribute == unread.attribute) return known.meaning;
  }
  return nullptr;
}

std::string place_of(const UnreadXml& unread) {
  return unread.parent.empty() ? "the file's top level" : fmt::format("<{}>", unread.parent);
}

void list_one(const UnreadXml& unread, IgnoredList& ignored) {
  constexpr const char* kUnknown = "not understood";
  switch (unread.kind) {
    case UnreadXml::Kind::Element:
      ignored.add(unread.line, fmt::format("<{}> in {}", unread.element, place_of(unread)), kUnknown, false);
      return;
    case UnreadXml::Kind::Text:
      ignored.add(unread.line, fmt::format("text in <{}>", unread.element), kUnknown, false);
      return;
    case UnreadXml::Kind::AttributeTwice:
      ignored.add(unread.line, fmt::format("attribute {} of <{}>", unread.attribute, unread.element),
                  "given twice: the first counts", false);
      return;
    case UnreadXml::Kind::Attribute: break;
  }
  const char* meaning = meaning_of(unread);
  ignored.add(unread.line, fmt::format("attribute {} of <{}>", unread.attribute, unread.element),
              meaning == nullptr ? kUnknown : meaning, meaning != nullptr);
}

}  // namespace

void list_ignored(const Reading& reading) {
  for (const UnreadXml& unread : reading.reader.unread()) list_one(unread, reading.ignored);
}

}  // namespace sinew::nccl_xml
