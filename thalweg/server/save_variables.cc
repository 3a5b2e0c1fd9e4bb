// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/save_variables.h"

#include <map>

#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/kernel/variable.h"

namespace thalweg {

absl::StatusOr<int> SaveVariables(FileSystem& files, const std::vector<std::shared_ptr<Device>>& devices,
                                  const std::string& prefix) {
  std::map<std::string, Tensor> values;
  for (const auto& device : devices) {
    for (const std::shared_ptr<Resource>& resource : device->resources().All()) {
      const auto* const variable = dynamic_cast<const Variable*>(resource.get());
      if (variable == nullptr || variable->dtype() == kResource || variable->dtype() == kVariant) continue;
      Tensor value = variable->Read();
      if (!value.has_value()) continue;
      if (!values.emplace(variable->name(), std::move(value)).second) {
        LOG(WARNING) << "Several variables are named '" << variable->name() << "': " << prefix
                     << " contains only one of them";
      }
    }
  }
  if (values.empty()) return 0;
  ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer, BundleWriter::Create(files, prefix));
  for (const auto& [name, value] : values) RETURN_IF_ERROR(writer->Add(name, value));
  RETURN_IF_ERROR(writer->Finish());
  return static_cast<int>(values.size());
}

}  // namespace thalweg
