// Which files the GPU checks need. `*` stands for one name in a path.
#pragma once

#include <string>
#include <vector>

#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

// Of the node, and of each PCI device what tells whether it is a GPU.
std::vector<std::string> gpu_sources();
// Of the GPUs among the devices that were read: their configuration space, links and counters. Not
// read of other devices, of which there are hundreds.
std::vector<std::string> gpu_device_sources(const SourceFiles& scanned);

// PCI addresses of NVIDIA's GPUs, "0000:3b:00.0", sorted.
std::vector<std::string> gpus_on_pci(const SourceFiles& scanned);
// The driver's "00000000:3B:00.0" as the kernel writes it; what is no address, as it is.
std::string kernel_pci_address(std::string_view driver_address);
std::string pci_file(const std::string& address, const char* name);

// For read_files: `open:` of each. Of as many GPUs as the profile says; none where it does not.
std::vector<std::string> gpu_device_nodes(const HealthProfile& profile);

}  // namespace muster
