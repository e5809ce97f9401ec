//! A macro for stores that delegate most calls to another one: a test implements only the methods it
//! changes.

/// Inside an `impl Store`, delegates the named methods to the store in a field: `passes_on!(inner:
/// submit claim watch);`. `rest` stands for all methods that no test store changes.
#[macro_export]
macro_rules! passes_on {
    ($field:ident: $($method:ident)+) => { $($crate::passes_on!(@ $field $method);)+ };
    (@ $field:ident submit) => {
        fn submit(&self, task: $crate::store::NewTask) -> $crate::store::StoreFuture<$crate::store::Submission> {
            self.$field.submit(task)
        }
    };
    (@ $field:ident claim) => {
        fn claim(&self, claim: $crate::store::Claim) -> $crate::store::StoreFuture<Vec<$crate::store::ClaimedTask>> {
            self.$field.claim(claim)
        }
    };
    (@ $field:ident append) => {
        fn append(&self, fence: $crate::store::Fence, batch: $crate::store::Batch) -> $crate::store::StoreFuture<u64> {
            self.$field.append(fence, batch)
        }
    };
    (@ $field:ident renew) => {
        fn renew(
            &self,
            fences: Vec<$crate::store::Fence>,
            lease: std::time::Duration,
        ) -> $crate::store::StoreFuture<Vec<$crate::store::RenewedLease>> {
            self.$field.renew(fences, lease)
        }
    };
    (@ $field:ident load) => {
        fn load(&self, task: uuid::Uuid, from: u64) -> $crate::store::StoreFuture<Option<$crate::store::LoadedTask>> {
            self.$field.load(task, from)
        }
    };
    (@ $field:ident newest) => {
        fn newest(
            &self,
            task: uuid::Uuid,
        ) -> $crate::store::StoreFuture<Option<($crate::store::TaskRecord, $crate::store::Entry)>> {
            self.$field.newest(task)
        }
    };
    (@ $field:ident conversation) => {
        fn conversation(
            &self,
            id: uuid::Uuid,
            before: Option<uuid::Uuid>,
            limit: usize,
        ) -> $crate::store::StoreFuture<Option<$crate::store::ConversationRecord>> {
            self.$field.conversation(id, before, limit)
        }
    };
    (@ $field:ident rest) => {
        fn signal(&self, signal: $crate::store::NewSignal) -> $crate::store::StoreFuture<$crate::store::SignalReceipt> {
            self.$field.signal(signal)
        }

        fn query(
            &self,
            filter: $crate::store::Filter,
            page: $crate::store::Page,
        ) -> $crate::store::StoreFuture<$crate::store::TaskPage> {
            self.$field.query(filter, page)
        }

        fn conversations(
            &self,
            owner: uuid::Uuid,
            app: &str,
            limit: usize,
        ) -> $crate::store::StoreFuture<Vec<$crate::store::ConversationRecord>> {
            self.$field.conversations(owner, app, limit)
        }

        fn definition(&self, hash: &str) -> $crate::store::StoreFuture<Option<$crate::store::Definition>> {
            self.$field.definition(hash)
        }

        fn trust(&self, hash: &str) -> $crate::store::StoreFuture<bool> {
            self.$field.trust(hash)
        }

        fn take_out(&self, task: uuid::Uuid) -> $crate::store::StoreFuture<Option<$crate::store::Archive>> {
            self.$field.take_out(task)
        }

        fn bring_in(
            &self,
            archive: $crate::store::Archive,
            definition: Option<$crate::store::Definition>,
        ) -> $crate::store::StoreFuture<$crate::store::Imported> {
            self.$field.bring_in(archive, definition)
        }

        fn watch(&self, scope: $crate::store::Scope) -> $crate::store::Hint {
            self.$field.watch(scope)
        }

        fn sweep(
            &self,
            sweep: $crate::store::Sweep,
        ) -> $crate::store::StoreFuture<$crate::store::SweepReport> {
            self.$field.sweep(sweep)
        }
    };
}
