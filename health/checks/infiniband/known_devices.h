// The InfiniBand devices of a node as a look told them that read all that tells devices, so that
// looks in between need only read what changes with a link. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "health/model/source_files.h"

namespace muster {

class KnownDevices {
 public:
  bool empty() const { return files_.all().empty(); }
  void forget() { files_ = {}; }
  // Of files that infiniband_device_sources() were read for; nothing when one could not be, or
  // there is no port.
  void remember(const SourceFiles& files);
  // infiniband_link_sources() of the ports that are known, which need not be listed.
  std::vector<std::string> link_sources() const;
  // What link_sources() told of the devices that are known, with what tells them. Those that are
  // gone are left out; nothing more is known once another one is there.
  SourceFiles with_links(const SourceFiles& links);

 private:
  bool has(std::string_view device) const;

  SourceFiles files_;
};

}  // namespace muster
