// What the checks of an nhc.conf become in a health profile. Lives as long as one import.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "health/model/profile.h"
#include "templates/nhc_line.h"

namespace muster {

// Gathers the lines of one target; some mean something only beside others.
class NhcProfileBuilder {
 public:
  struct Remark {
    int line = 0;
    std::string text;
  };

  // Why the line says nothing that a profile could; empty when it does.
  std::string add(const NhcLine& line);
  // Once, after all lines.
  HealthProfile finish(std::string name);

  const std::vector<Remark>& notes() const { return notes_; }
  const std::vector<Remark>& skipped_late() const { return skipped_; }  // filled by `finish`

 private:
  using Words = std::vector<NhcWord>;  // the arguments
  using Handler = std::string (NhcProfileBuilder::*)(const Words&);
  struct Row {
    const char* check;
    Handler handler;
  };
  struct InfinibandLine {
    int line = 0;
    int rate_gbps = 0;
    std::string port;  // a pattern
  };
  struct FreeLine {
    std::optional<double> pct;
    std::optional<std::int64_t> mb;
  };

  static const std::vector<Row>& rows();

  std::string add_memory(const Words& words);
  std::string add_swap(const Words& words);
  std::string add_processors(const Words& words);
  std::string add_infiniband(const Words& words);
  std::string add_interface(const Words& words);
  std::string add_machine_checks(const Words& words);
  std::string add_mount(const Words& words);
  std::string add_mount_rw(const Words& words);
  std::string add_mount_ro(const Words& words);
  std::string add_free(const Words& words);
  std::string add_free_inodes(const Words& words);
  std::string add_service(const Words& words);
  std::string add_daemon(const Words& words);
  std::string add_gpu_count(const Words& words);
  std::string add_gpu_ecc(const Words& words);
  std::string add_gpu_xid(const Words& words);
  std::string add_nvlink(const Words& words);
  std::string add_gpu_copy(const Words& words);
  std::string add_allreduce(const Words& words);
  std::string add_ib_write_gpu(const Words& words);
  std::string add_ib_write_host(const Words& words);
  std::string add_stream(const Words& words);
  std::string add_flapping(const Words& words);
  std::string add_nvmes(const Words& words);

  std::string add_mounts(const Words& words, std::vector<std::string>& paths);
  std::string set_free(const std::string& path, const FreeLine& free);
  std::string set_floor(const Words& words, std::size_t at, const char* floor);
  void enforce(const char* check);
  void note_once(const std::string& text);
  void finish_infiniband();
  void finish_allreduce();
  void finish_free();

  HealthProfile profile_;
  int line_ = 0;  // the one being read
  std::vector<InfinibandLine> infiniband_;
  std::optional<std::pair<int, double>> allreduce_;  // line, GB/s
  FreeLine free_;
  std::vector<Remark> notes_;
  std::vector<Remark> skipped_;
};

}  // namespace muster
