// What a node's monitor remembers over a restart of its agent: plain data, bounded, with `fields`
// for a codec.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "health/checks/host/edac.h"
#include "health/checks/host/kernel.h"
#include "health/checks/infiniband/link_flaps.h"
#include "health/checks/kernel/kernel_watch_state.h"
#include "health/model/counter_history.h"

namespace muster {

struct MonitorMemory {
  std::string boot_id;
  std::map<std::string, std::string> gpu_names;  // by PCI address: "gpu3"
  std::map<std::string, std::string> hca_names;  // "mlx5_3"
  std::vector<std::string> skipped;              // addresses of devices that are not judged
  std::vector<std::string> refusing;             // HCAs whose firmware refuses what is read
  KernelWatchState kernel;
  std::vector<CounterTrack> counters;  // thinned: a restart needs where windows begin
  std::vector<LinkFlapTrack> flaps;
  std::vector<EdacSample> edac;
  std::vector<BootSeen> boots;
  SinceBoot look_at{};
  std::string look_readings;  // of the GPUs, as write_gpu_readings has them; empty: none
  std::map<std::string, std::string> look_files;

  template <class Self, class Visit>
  static void fields(Self& self, Visit visit) {
    visit("boot_id", self.boot_id);
    visit("gpu_names", self.gpu_names);
    visit("hca_names", self.hca_names);
    visit("skipped", self.skipped);
    visit("refusing", self.refusing);
    visit("kernel", self.kernel);
    visit("counters", self.counters);
    visit("flaps", self.flaps);
    visit("edac", self.edac);
    visit("boots", self.boots);
    visit("look_at", self.look_at);
    visit("look_readings", self.look_readings);
    visit("look_files", self.look_files);
  }
};

}  // namespace muster
