#include "tests/health/fake_node.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "health/checks/gpu/gpu_check.h"
#include "health/model/source_files.h"
#include "scheduler/text/pattern.h"
#include "tests/health/fake_host.h"
#include "tests/health/fake_infiniband.h"
#include "tests/health/nvml_fixture.h"

namespace muster {

namespace {

constexpr int fake_devices = 8;

const char* data_of(FakeKind kind) {
  return kind == FakeKind::h100 ? "nvml-h100-8.txt" : "nvml-a100-8.txt";
}

// What the library says to that file, in the order of the calls. Asked once for each text.
const std::vector<GpuStep>& steps_of(const std::string& script) {
  static std::map<std::string, std::vector<GpuStep>> known;
  const auto [found, is_new] = known.try_emplace(script);
  std::vector<GpuStep>& steps = found->second;
  if (!is_new) return steps;
  const FakeNvml fake(script);
  const auto library = NvmlLibrary::load(fake_nvml_path());
  if (!library) {
    steps.push_back({{}, "init", {12, {}}});
    return steps;
  }
  const GpuReadingSink sink{[&](const std::string& call) {
                              steps.push_back({call, {}, {}});
                            },
                            [&](const std::string& key, const GpuReading& one) {
                              steps.push_back({{}, key, one});
                            }};
  read_gpus(*library, {}, sink);
  return steps;
}

// The paths of a source with its stars filled in, and the directories that were listed for them.
class Expansion {
 public:
  Expansion(const SourceFiles& files, std::vector<std::string>& paths)
      : files_(files), paths_(paths) {}

  void add(const std::string& source) {
    const SourcePattern pattern = source_pattern_of(source);
    if (pattern.path.starts_with('/')) {
      expand(pattern, "", pattern.path);
    } else {
      tell(source);
    }
  }

 private:
  void expand(const SourcePattern& pattern, const std::string& done, std::string_view rest) {
    if (rest.empty()) return tell(std::string(pattern.probe) + done + (pattern.is_link ? "@" : ""));
    const std::size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string_view component = rest.substr(1, end - 1);
    rest.remove_prefix(end);
    if (!is_pattern(component)) return expand(pattern, done + "/" + std::string(component), rest);
    tell(done);
    // A directory that cannot be read has no names.
    if (!files_.reading(done).ok() && files_.all().contains(done)) return;
    for (const std::string& name : names_in(pattern, done)) {
      if (fits_pattern(component, name)) expand(pattern, done + "/" + name, rest);
    }
  }

  const std::set<std::string>& names_in(const SourcePattern& pattern, const std::string& folder) {
    const std::string probed = std::string(pattern.probe) + folder;
    const auto [found, is_new] = listed_.try_emplace(probed);
    if (!is_new) return found->second;
    for (const std::string& name : files_.names_below(folder)) found->second.insert(name);
    for (const std::string& name : files_.names_below(probed)) found->second.insert(name);
    return found->second;
  }

  void tell(const std::string& path) {
    if (told_.insert(path).second) paths_.push_back(path);
  }

  const SourceFiles& files_;
  std::vector<std::string>& paths_;
  std::map<std::string, std::set<std::string>> listed_;
  std::set<std::string> told_;
};

std::string renamed(std::string text, const std::string& adapters) {
  constexpr std::string_view plain = "mlx5_";
  for (std::size_t at = text.find(plain); at != text.npos; at = text.find(plain, at + 1)) {
    const std::size_t number = at + plain.size();
    const bool is_adapter = number < text.size() && text[number] >= '0' && text[number] <= '9';
    if (is_adapter) text.replace(at, plain.size(), adapters);
  }
  return text;
}

}  // namespace

FakeNode::FakeNode(FakeKind kind, std::string adapters)
    : kind_(kind), adapters_(std::move(adapters)), script_(health_data(data_of(kind))) {
  add_host();
  add_infiniband();
  add_gpus();
}

void FakeNode::add_host() {
  const SourceFiles host = healthy_host();
  for (const auto& [path, reading] : host.all()) files_.add(path, reading);
  remove("/data");
  remove("/share d");
  const std::int64_t mem_kb = kind_ == FakeKind::h100 ? 1961032704 : 928858388;
  set("/proc/meminfo", "MemTotal:       " + std::to_string(mem_kb) +
                           " kB\nMemFree:        900000000 kB\nSwapTotal:             0 kB\n"
                           "HugePages_Total:       0\nHugepagesize:       2048 kB\n");
  for (int disk = 0; disk < fake_devices; ++disk) {
    const std::string folder = "/sys/class/nvme/nvme" + std::to_string(disk);
    set(folder + "/transport", "pcie\n");
    set(folder + "/state", "live\n");
  }
  set("/proc/1/stat", stat_text(1, "systemd", 'S', 900));
  set("/proc/812/stat", stat_text(812, "muster", 'S', 40));
  set("/proc/900/stat", stat_text(900, "sshd: (a) b", 'S', 4));
}

void FakeNode::add_infiniband() {
  const FakeInfiniband fake(fake_devices);
  for (const auto& [path, reading] : fake.files().all())
    files_.add(renamed(path, adapters_), renamed(reading.text, adapters_));
  if (kind_ == FakeKind::h100) return;
  for (int hca = 0; hca < fake_devices; ++hca) {
    const std::string folder = "/sys/class/infiniband/" + adapters_ + std::to_string(hca);
    set(folder + "/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    for (const char* which : {"current", "max"})
      set(folder + "/device/" + which + "_link_speed", "16.0 GT/s PCIe\n");
  }
}

void FakeNode::add_gpus() {
  for (int gpu = 0; gpu < fake_devices; ++gpu) {
    const auto add_file = [&](const char* name, const std::string& text) {
      set(pci_file(gpu_address(gpu), name), text);
    };
    add_file("vendor", "0x10de\n");
    add_file("class", "0x030200\n");
    add_file("config", std::string("\xde\x10\x30\x23\0\0\0\0", 8));
    add_file("current_link_width", "16\n");
    add_file("numa_node", gpu < fake_devices / 2 ? "0\n" : "1\n");
    add_file("aer_dev_correctable", "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n");
    add_file("aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0\n");
    add_file("aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
    set("open:/dev/nvidia" + std::to_string(gpu), "");
  }
  set("open:/dev/nvidiactl", "");
  set("open:/dev/nvidia-uvm", "");
  set("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n");
  set("/sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n");
  set("/proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 2 1 nvidia_uvm, Live 0x0\n");
  const std::string driver = kind_ == FakeKind::h100 ? "570.133.20" : "535.161.08";
  set("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " +
                                         driver + "  Release Build\nGCC version:  gcc 12.2.0\n");
}

NodeReadings FakeNode::read(const NodeReadRequest& request) {
  NodeReadings readings;
  for (const std::string& path : paths_of(request.sources))
    readings.files.add(path, reading_of(path));
  if (request.gpus) readings.gpus = read_gpus(*request.gpus);
  return readings;
}

const std::vector<std::string>& FakeNode::paths_of(const std::vector<std::string>& sources) {
  const auto [found, is_new] = plans_.try_emplace(sources);
  if (!is_new) return found->second;
  Expansion expansion(files_, found->second);
  for (const std::string& source : sources) expansion.add(source);
  return found->second;
}

// A probe that nobody placed finds the file itself; a directory answers.
FileReading FakeNode::reading_of(const std::string& path) const {
  if (files_.all().contains(path)) return files_.reading(path);
  const SourcePattern pattern = source_pattern_of(path);
  const std::string plain(pattern.path);
  const bool is_there = files_.all().contains(plain) || !files_.names_below(plain).empty();
  if (!is_there || pattern.is_link) return {{}, "No such file or directory", true};
  if (pattern.probe == "stat:") return {"uid 0\nbytes 0\nmodified_s 0\n", {}, false};
  return {};
}

GpuReadings FakeNode::read_gpus(const GpuReadingScope& scope) {
  GpuReadings readings;
  for (const GpuStep& step : steps_of(script_)) {
    const bool is_left_out = (!scope.processes && step.key.ends_with(".procs")) ||
                             (!scope.inforom && step.key.ends_with(".inforom"));
    if (is_left_out) continue;
    if (!step.call.empty()) {
      readings.begin_call(step.call);
      if (step.call == stops_at_) return readings;
      continue;
    }
    GpuReading reading = step.reading;
    const auto added = nvml_added_.find(step.key);
    if (added != nvml_added_.end() && reading.rc == 0) {
      const auto number = std::llround(std::stod(reading.value) + added->second);
      reading.value = std::to_string(number);
    }
    readings.add(step.key, std::move(reading));
  }
  readings.complete();
  return readings;
}

void FakeNode::set(const std::string& path, std::string text) {
  if (!has(path)) changed();
  files_.add(path, std::move(text));
}

void FakeNode::set_error(const std::string& path, std::string error) {
  changed();
  files_.add(path, FileReading{{}, std::move(error), false});
}

void FakeNode::hang(const std::string& path) {
  set_error(path, "no answer within 5 s");
}

void FakeNode::append(const std::string& path, const std::string& text) {
  set(path, files_.reading(path).text + text);
}

void FakeNode::remove(const std::string& path) {
  SourceFiles left;
  for (const auto& [name, reading] : files_.all()) {
    const std::string_view plain = source_pattern_of(name).path;
    if (plain != path && !plain.starts_with(path + "/") && name != path) left.add(name, reading);
  }
  files_ = std::move(left);
  changed();
}

void FakeNode::add(const std::string& path, double amount) {
  // Counters of PCI errors stand behind a word; of the others the number is the text.
  const std::string& text = files_.reading(path).text;
  const std::size_t space = text.rfind(' ');
  const std::size_t begin = space == text.npos ? 0 : space + 1;
  const auto number = std::stoll(text.substr(begin)) + std::llround(amount);
  set(path, text.substr(0, begin) + std::to_string(number) + "\n");
}

void FakeNode::set_uptime(double seconds) {
  set("/proc/uptime", std::to_string(seconds) + " 1.00\n");
}

std::string FakeNode::boot_id() const {
  return std::string(files_.text(boot_id_path).value_or(""));
}

void FakeNode::nvml(const std::string& lines) {
  script_ += lines + "\n";
}

std::string FakeNode::gpu_address(int gpu) const {
  const std::string key = "\ngpu" + std::to_string(gpu) + ".bdf ";
  const std::size_t at = script_.find(key);
  const std::string line = script_.substr(at + key.size());
  return normal_pci_address(line.substr(0, line.find('\n'))).value_or("");
}

std::string FakeNode::hca_address(int hca) const {
  return FakeInfiniband::pci_address(hca);
}

}  // namespace muster
