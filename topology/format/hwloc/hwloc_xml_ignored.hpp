#pragma once

#include <sinew/topology/format/ignored.hpp>
#include <sinew/topology/format/xml_reader.hpp>

namespace sinew {

/// What hwloc or machine_from_hwloc_xml() leaves out of a file: hwloc passes over attributes and types of objects that
/// it does not know, and a Machine has no place for everything that hwloc knows.
void list_hwloc_ignored(const XmlReader& xml, IgnoredList& ignored);

}  // namespace sinew
