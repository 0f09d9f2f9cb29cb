#include "tools/sandbox/fake_gpus.h"

#include <cstdio>

#include "tools/sandbox/files.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

// Differs between the GPUs of a sandbox, and is the same at every `up`: the host's number, as h0012
// has it, and the GPU's.
std::string gpu_uuid(const std::string& host, int number) {
  const std::string digits = host.substr(1);
  char text[48];
  std::snprintf(text, sizeof text, "GPU-%s%s-0000-4000-8000-%012x",
                std::string(8 - digits.size(), '0').c_str(), digits.c_str(),
                static_cast<unsigned>(number));
  return text;
}

Status make_path(const fs::path& root, const fs::path& below) {
  fs::path path = root;
  for (const fs::path& part : below) {
    path /= part;
    if (auto made = make_folder(path, 0755); !made) return made;
  }
  return Done{};
}

}  // namespace

std::string gpu_address(int number) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", static_cast<unsigned>(number + 1) & 0xffu);
  return text;
}

// Synthetic: keys in the driver's form, values made up.
std::string gpu_information(const std::string& host, int number) {
  return "Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t " + std::to_string(128 + number) +
         "\nGPU UUID: \t " + gpu_uuid(host, number) +
         "\nVideo BIOS: \t 92.00.36.00.01\nBus Type: \t PCIe\nDMA Size: \t 47 bits\n"
         "DMA Mask: \t 0x7fffffffffff\nBus Location: \t " +
         gpu_address(number) + "\nDevice Minor: \t " + std::to_string(number) +
         "\nGPU Excluded:\t No\n";
}

Status make_fake_gpus(const SandboxLayout& layout, const SandboxState& state) {
  if (!state.gpus) return Done{};
  const fs::path list = "proc/driver/nvidia/gpus";
  for (const std::string& host : state.hosts) {
    const fs::path root = layout.system_root(host);
    if (auto made = make_folder(root, 0755); !made) return made;
    if (auto made = make_path(root, list); !made) return made;
    for (int number = 0; number < *state.gpus; ++number) {
      const fs::path gpu = root / list / gpu_address(number);
      if (auto made = make_folder(gpu, 0755); !made) return made;
      const auto text = gpu_information(host, number);
      if (auto done = write_file(gpu / "information", text, 0444); !done) return done;
    }
  }
  return Done{};
}

}  // namespace muster
