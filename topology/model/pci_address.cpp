#include <sinew/topology/model/pci_address.hpp>

namespace sinew {

std::string pci_address(std::string_view text) {
  constexpr std::string_view kForm = "hhhh:hh:hh.h";  // a domain may have up to four digits more
  if (text.size() < kForm.size() || text.size() > kForm.size() + 4) return {};
  std::string address(text);
  const std::size_t more = text.size() - kForm.size();
  for (std::size_t i = 0; i < address.size(); ++i) {
    const char expected = i < more ? 'h' : kForm[i - more];
    char& c = address[i];
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (expected == 'h' ? !digit : c != expected) return {};
  }
  while (address.size() > kForm.size() && address.front() == '0') address.erase(0, 1);
  return address;
}

}  // namespace sinew
