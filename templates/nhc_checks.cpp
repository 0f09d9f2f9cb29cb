#include "templates/nhc_checks.h"

#include <algorithm>
#include <cmath>

#include "health/model/profile_floor.h"
#include "scheduler/text/spelling.h"
#include "templates/nhc_arguments.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

constexpr int most_devices = 1024;

bool is_device_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool is_path(const std::string& text) {
  return text.starts_with('/') && text.size() <= 256;
}

template <class T>
void add_new(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

}  // namespace

const std::vector<NhcProfileBuilder::Row>& NhcProfileBuilder::rows() {
  using Builder = NhcProfileBuilder;
  static const std::vector<Row> table = {
      {"check_hw_physmem", &Builder::add_memory},
      {"check_hw_swap", &Builder::add_swap},
      {"check_hw_cpuinfo", &Builder::add_processors},
      {"check_hw_ib", &Builder::add_infiniband},
      {"check_hw_eth", &Builder::add_interface},
      {"check_hw_mcelog", &Builder::add_machine_checks},
      {"check_fs_mount", &Builder::add_mount},
      {"check_fs_mount_rw", &Builder::add_mount_rw},
      {"check_fs_mount_ro", &Builder::add_mount_ro},
      {"check_fs_free", &Builder::add_free},
      {"check_fs_ifree", &Builder::add_free_inodes},
      {"check_ps_service", &Builder::add_service},
      {"check_ps_daemon", &Builder::add_daemon},
      {"check_gpu_count", &Builder::add_gpu_count},
      {"check_gpu_ecc", &Builder::add_gpu_ecc},
      {"check_gpu_xid", &Builder::add_gpu_xid},
      {"check_nvlink_status", &Builder::add_nvlink},
      {"check_gpu_bw", &Builder::add_gpu_copy},
      {"check_nccl_allreduce", &Builder::add_allreduce},
      {"check_ib_bw_gdr", &Builder::add_ib_write_gpu},
      {"check_ib_bw_non_gdr", &Builder::add_ib_write_host},
      {"check_cpu_stream", &Builder::add_stream},
      {"check_ib_link_flapping", &Builder::add_flapping},
      {"check_nvme_count", &Builder::add_nvmes},
  };
  return table;
}

std::string NhcProfileBuilder::add(const NhcLine& line) {
  line_ = line.number;
  const std::string check = plain_word(line.words, 0);
  const auto found =
      std::ranges::find_if(rows(), [&](const Row& row) { return check == row.check; });
  if (found != rows().end()) {
    return (this->*found->handler)(Words(line.words.begin() + 1, line.words.end()));
  }
  if (!check.starts_with("check_")) return "a shell command, which is not run";
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.check);
  const std::string hint = did_you_mean(check, names);
  return "no check of muster's does what " + quoted_text(check) + " does" +
         (hint.empty() ? "" : "; " + hint);
}

HealthProfile NhcProfileBuilder::finish(std::string name) {
  profile_.name = std::move(name);
  finish_infiniband();
  finish_allreduce();
  finish_free();
  return std::move(profile_);
}

// ---- the machine

std::string NhcProfileBuilder::add_memory(const Words& words) {
  const auto low = nhc_size_kb(plain_word(words, 0));
  const auto high = nhc_size_kb(plain_word(words, 1));
  const std::string fudge = plain_word(words, 2);
  const auto fudge_pct = nhc_percent(fudge);
  const auto fudge_kb = nhc_size_kb(fudge);
  const bool is_fudge_known = words.size() < 3 || fudge_pct || fudge_kb;
  if (!low || !high || *low > *high || *high < 1 || !is_fudge_known) {
    return "expected the least and the most memory, such as 32gb 32gb 5%";
  }
  const double middle = (*low + *high) / 2;
  const double half_pct = (*high - *low) / 2 / middle * 100;
  const double slack_pct = fudge_pct ? *fudge_pct : fudge_kb.value_or(0) / middle * 100;
  profile_.host.mem_kb = static_cast<std::int64_t>(middle);
  profile_.host.mem_tolerance_pct = std::min(half_pct + slack_pct, 100.0);
  return "";
}

std::string NhcProfileBuilder::add_swap(const Words& words) {
  const auto low = nhc_size_kb(plain_word(words, 0));
  const auto high = nhc_size_kb(plain_word(words, 1));
  if (!low || !high) return "expected the least and the most swap, such as 0kB 0kB";
  const bool is_exact =
      words.size() < 3 || plain_word(words, 2) == "0" || plain_word(words, 2) == "0%";
  if (*low != *high || (*low > 0 && !is_exact)) {
    return "a profile says how much swap there is, not a range";
  }
  profile_.host.swap_kb = static_cast<std::int64_t>(*low);
  return "";
}

std::string NhcProfileBuilder::add_processors(const Words& words) {
  const auto threads = count_at(words, 2, 65536);
  if (!threads || *threads == 0) return "expected sockets, cores and threads";
  note_once("host.cpu counts threads, not sockets and cores");
  profile_.host.cpus = *threads;
  return "";
}

// ---- the network

std::string NhcProfileBuilder::add_infiniband(const Words& words) {
  const auto rate = count_at(words, 0, 100000);
  if (!rate || *rate == 0) return "expected a rate in Gb/s, such as 400 mlx5_0:1";
  std::string port = plain_word(words, 1);
  if (words.size() > 1) {
    const std::size_t colon = port.find(':');
    const bool has_port = colon != std::string::npos;
    const bool is_port =
        !has_port || whole_number(std::string_view(port).substr(colon + 1)).value_or(0) > 0;
    if (!is_device_name(port.substr(0, colon)) || !is_port) {
      return "expected a device such as mlx5_0:1, got " + quoted_text(words[1].text);
    }
    if (!has_port) port += ":*";
  }
  note_once("ib.rate passes a port of at least this rate; NHC wants it to be equal");
  if (port.empty()) {
    port = "*";
    note_once("all InfiniBand ports are judged; NHC wants one of them to be well");
  }
  infiniband_.push_back({line_, *rate, port});
  return "";
}

// One rate fits a profile: that of most lines, the higher one of two.
void NhcProfileBuilder::finish_infiniband() {
  std::map<int, int> lines_at;
  for (const InfinibandLine& line : infiniband_) ++lines_at[line.rate_gbps];
  int best = 0;
  for (const auto& [rate, lines] : lines_at) {
    if (best == 0 || lines >= lines_at[best]) best = rate;
  }
  if (best == 0) return;
  profile_.ib.rate_gbps = best;
  for (const InfinibandLine& line : infiniband_) {
    if (line.rate_gbps != best) {
      skipped_.push_back({line.line, "a profile has one rate, here " + std::to_string(best) +
                                         " Gb/s; judge this port in one of its own"});
    } else {
      add_new(profile_.ib.ports, line.port);
    }
  }
  for (const char* check : {"ib.state", "ib.phys", "ib.rate"}) enforce(check);
}

std::string NhcProfileBuilder::add_interface(const Words& words) {
  const std::string device = plain_word(words, 0);
  if (!is_device_name(device)) return "expected the name of an interface";
  note_once("a profile names no interfaces: ib.netdev and host.net judge all of them");
  enforce(device.starts_with("ib") ? "ib.netdev" : "host.net");
  return "";
}

std::string NhcProfileBuilder::add_flapping(const Words& words) {
  if (!words.empty()) note_once("ib.flap counts over 24 h, whatever the argument");
  enforce("ib.flap");
  return "";
}

std::string NhcProfileBuilder::add_machine_checks(const Words&) {
  enforce("host.edac");
  return "";
}

// ---- file systems

std::string NhcProfileBuilder::add_mounts(const Words& words, std::vector<std::string>& paths) {
  if (is_path(plain_word(words, 0))) {  // the old form: path source type options
    paths.push_back(plain_word(words, 0));
    if (words.size() > 1) note_once("host.mounts compares neither source nor type nor options");
  } else {
    NhcOptions options = nhc_options(words, "0rE:F:O:e:f:o:s:t:");
    if (!options.error.empty()) return options.error;
    for (const char letter : {'f', 'F'}) {
      for (const std::string& path : options.given[letter]) paths.push_back(path);
    }
    for (const std::string& path : options.rest) paths.push_back(path);
    const auto has = [&](char letter) { return !options.given[letter].empty(); };
    if (has('s') || has('t') || has('o')) {
      note_once("host.mounts compares neither source nor type nor options");
    }
    if (has('r') || has('e') || has('E')) note_once("nothing is mounted or run in a check");
    if (has('0')) note_once("a mount that is missing is a failure; -0 made it a message");
  }
  if (paths.empty() || !std::ranges::all_of(paths, is_path)) {
    return "expected an absolute path, such as -f /home";
  }
  for (const std::string& path : paths) add_new(profile_.host.mounts, path);
  enforce("host.mounts");
  return "";
}

std::string NhcProfileBuilder::add_mount(const Words& words) {
  std::vector<std::string> paths;
  return add_mounts(words, paths);
}

std::string NhcProfileBuilder::add_mount_rw(const Words& words) {
  std::vector<std::string> paths;
  std::string why = add_mounts(words, paths);
  if (why.empty()) enforce("host.ro");
  return why;
}

std::string NhcProfileBuilder::add_mount_ro(const Words& words) {
  std::vector<std::string> paths;
  std::string why = add_mounts(words, paths);
  if (!why.empty()) return why;
  for (const std::string& path : paths) {
    add_new(profile_.exclude, CheckExclusion{"host.ro", path, "is mounted for reading"});
  }
  return why;
}

// One pair of limits is for all file systems.
std::string NhcProfileBuilder::set_free(const std::string& path, const FreeLine& free) {
  const bool differs = (free.pct && free_.pct && *free.pct != *free_.pct) ||
                       (free.mb && free_.mb && *free.mb != *free_.mb);
  if (differs) return "host.disk has one limit for all file systems, and an earlier line gives it";
  if (free.pct) free_.pct = free.pct;
  if (free.mb) free_.mb = free.mb;
  add_new(profile_.host.disks, path);
  enforce("host.disk");
  return "";
}

std::string NhcProfileBuilder::add_free(const Words& words) {
  const std::string path = plain_word(words, 0);
  const std::string least = plain_word(words, 1);
  const auto pct = nhc_percent(least);
  const auto kb = nhc_size_kb(least);
  if (!is_path(path) || (!pct && !kb)) return "expected a path and what is free, such as / 5%";
  if (pct) return set_free(path, {pct, {}});
  return set_free(path, {{}, static_cast<std::int64_t>(std::ceil(*kb / 1024))});
}

std::string NhcProfileBuilder::add_free_inodes(const Words& words) {
  const std::string path = plain_word(words, 0);
  const auto pct = nhc_percent(plain_word(words, 1));
  if (!is_path(path)) return "expected a path and what is free, such as / 5%";
  if (!pct) return "host.disk judges free inodes by their share, not by their number";
  return set_free(path, {pct, {}});
}

// A limit that the file does not give is not judged: the usual one may be stricter.
void NhcProfileBuilder::finish_free() {
  if (!free_.pct && !free_.mb) return;
  profile_.host.free_pct = free_.pct.value_or(0);
  profile_.host.free_mb = free_.mb.value_or(0);
}

// ---- programs

std::string NhcProfileBuilder::add_service(const Words& words) {
  NhcOptions options = nhc_options(words, "0E:SVcd:e:fkm:rsu:v");
  if (!options.error.empty()) return options.error;
  const auto has = [&](char letter) { return !options.given[letter].empty(); };
  if (has('s') || has('k') || has('E')) return "nothing is stopped or killed in a check";
  if (has('m') || has('f')) return "a profile names programs, not patterns of their arguments";
  const std::string name = has('d')                ? options.given['d'].back()
                           : !options.rest.empty() ? options.rest.front()
                                                   : "";
  if (!is_device_name(name)) return "expected the name of a service";
  if (has('r') || has('c') || has('S') || has('e')) note_once("nothing is started in a check");
  if (has('u')) note_once("whose process it is does not count");
  add_new(profile_.host.services, name);
  return "";
}

std::string NhcProfileBuilder::add_daemon(const Words& words) {
  const std::string name = plain_word(words, 0);
  if (!is_device_name(name)) return "expected the name of a program";
  if (words.size() > 1) note_once("whose process it is does not count");
  add_new(profile_.host.services, name);
  return "";
}

// ---- GPUs

std::string NhcProfileBuilder::add_gpu_count(const Words& words) {
  const auto count = count_at(words, 0, most_devices);
  if (!count) return "expected the number of GPUs";
  if (plain_word(words, 1) == "rocm") return "the gpu checks read NVIDIA's GPUs only";
  profile_.gpu.count = *count;
  return "";
}

std::string NhcProfileBuilder::add_gpu_ecc(const Words& words) {
  const auto dram = number_at(words, 0);
  const auto sram = number_at(words, 1);
  if (!dram || !sram) return "expected the most errors of DRAM and of SRAM";
  enforce("gpu.ecc_sbe");
  profile_.checks["gpu.ecc_sbe"].limits = {{"dram_errors", *dram}, {"sram_errors", *sram}};
  return "";
}

std::string NhcProfileBuilder::add_gpu_xid(const Words&) {
  enforce("gpu.xid");
  return "";
}

std::string NhcProfileBuilder::add_nvlink(const Words&) {
  enforce("gpu.nvlink_active");
  return "";
}

std::string NhcProfileBuilder::add_nvmes(const Words& words) {
  const auto count = count_at(words, 0, most_devices);
  if (!count) return "expected the number of NVMe devices";
  profile_.host.nvmes = *count;
  return "";
}

// ---- floors

std::string NhcProfileBuilder::set_floor(const Words& words, std::size_t at, const char* floor) {
  const auto number = number_at(words, at);
  if (!number || *number < profile_floor_min || *number > profile_floor_max) {
    return "expected a positive number";
  }
  profile_.floors[floor] = *number;
  return "";
}

std::string NhcProfileBuilder::add_gpu_copy(const Words& words) {
  std::string why = set_floor(words, 0, "h2d_gb_per_s");
  if (why.empty() && words.size() > 1) why = set_floor(words, 1, "p2p_gb_per_s");
  return why;
}

std::string NhcProfileBuilder::add_allreduce(const Words& words) {
  const auto number = number_at(words, 0);
  if (!number || *number < profile_floor_min || *number > profile_floor_max) {
    return "expected a positive number";
  }
  allreduce_ = {line_, *number};
  return "";
}

void NhcProfileBuilder::finish_allreduce() {
  if (!allreduce_) return;
  const int gpus = profile_.gpu.count.value_or(8);
  const std::string floor = "allreduce" + std::to_string(gpus) + "_gb_per_s";
  if (find_performance_metric(floor) == nullptr) {
    skipped_.push_back({allreduce_->first, "no floor is for " + std::to_string(gpus) + " GPUs"});
    return;
  }
  if (!profile_.gpu.count) notes_.push_back({allreduce_->first, "taken to be over 8 GPUs"});
  profile_.floors[floor] = allreduce_->second;
}

std::string NhcProfileBuilder::add_ib_write_gpu(const Words& words) {
  return set_floor(words, 0, "ib_write_bw_gbps");
}

std::string NhcProfileBuilder::add_ib_write_host(const Words& words) {
  return set_floor(words, 0, "ib_write_bw_host_gbps");
}

std::string NhcProfileBuilder::add_stream(const Words& words) {
  return set_floor(words, 0, "stream_mb_per_s");
}

// ---- what they share

void NhcProfileBuilder::enforce(const char* check) {
  profile_.checks[check].mode = CheckMode::enforce;
}

void NhcProfileBuilder::note_once(const std::string& text) {
  const bool is_said =
      std::ranges::any_of(notes_, [&](const Remark& remark) { return remark.text == text; });
  if (!is_said) notes_.push_back({line_, text});
}

}  // namespace muster
