// The account that people and muster log in to on the hosts. It is a real account of this machine:
// made when it does not exist, shared by the sandboxes that use it, and removed with the last one
// if it was made here. Who uses it is kept below `sandbox_root`, one file each.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "scheduler/model/result.h"
#include "tools/sandbox/layout.h"

namespace muster {

struct Account {
  std::string name;
  unsigned uid = 0;
  unsigned gid = 0;
  std::filesystem::path home;
};

std::optional<Account> find_account(const std::string& name);

Result<Account> take_account(const std::string& name, const SandboxLayout& layout);

bool has_accounts(const SandboxLayout& layout);
// Every account that this sandbox took.
void release_accounts(const SandboxLayout& layout);

}  // namespace muster
