// A broker for the tests, in the likeness of Service Bus and Event Hubs: AMQP 1.0 with claims-based security, whose
// signatures are really verified. The first word of an entity's name says how it behaves; what arrives is printed,
// unless it is to be quiet: printing costs more than all else.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const frames = require('rhea/lib/frames.js');

// Microsoft's client for Event Hubs reads a frame's fields by position, and the last ones may not be left out.
const LAST_FIELDS = {
  open: { properties: { product: 'recapito-test' } },
  begin: { handle_max: 255, properties: { product: 'recapito-test' } },
  attach: { properties: { product: 'recapito-test' } },
  flow: { properties: { product: 'recapito-test' } },
  transfer: { batchable: false },
  disposition: { batchable: false },
};
for (const [name, fields] of Object.entries(LAST_FIELDS)) {
  const make = frames[name];
  frames[name] = (given) => make({ ...fields, ...given });
}

const rhea = require('rhea');
const { policy, key, cert, certKey, port = 0, largest = 1048576, quiet = false } = JSON.parse(process.argv[2]);
const container = rhea.create_container({ id: 'recapito-test' });
container.sasl_server_mechanisms.enable_anonymous();
for (const name of ['MSSBCBS', 'EXTERNAL']) {
  container.sasl_server_mechanisms[name] = container.sasl_server_mechanisms.ANONYMOUS;
}

// What is said to whoever attaches to an entity, and to a message.
const ATTACHING = {
  gone: ['amqp:not-found', 'The messaging entity could not be found.'],
  disabled: ['com.microsoft:entity-disabled', 'The messaging entity is currently disabled.'],
  denied: ['amqp:unauthorized-access', "Unauthorized access. 'Send' claim(s) are required to perform this operation."],
  ended: ['amqp:unauthorized-access', 'ExpiredToken: the token has expired.'],
};
const SENDING = {
  full: ['amqp:resource-limit-exceeded', 'The maximum size has been reached.'],
  busy: ['com.microsoft:server-busy', 'The request was terminated because the entity is being throttled.'],
  slow: ['com.microsoft:timeout', 'The operation did not complete within the allotted time.'],
  large: ['amqp:link:message-size-exceeded', 'The received message is too large.'],
  odd: ['com.microsoft:argument-error', 'An argument is wrong.'],
  session: ['amqp:not-allowed', 'The SessionId was not set on a message, and it cannot be sent to the entity.'],
  picky: ['amqp:not-allowed', 'Messages of one batch must have one partition key.'],
  broken: ['amqp:internal-error', 'The service was unable to process the request.'],
  deleted: ['amqp:resource-deleted', 'The messaging entity was deleted.'],
};
const BATCH = 0x80013700;
const known = new Set();

const say = (what) => quiet || process.stdout.write(`${JSON.stringify(what)}\n`);
const pathOf = (address) => (/^amqps?:|^sb:/.test(address) ? new URL(address).pathname.slice(1) : address);
const behaviour = (entity) => entity.split('-')[0];
const error = ([condition, description]) => ({ condition, description, info: { 'com.microsoft:tracking-id': 'test' } });

function verify(token) {
  if (token === 'a token of an identity') return true;
  const fields = Object.fromEntries(
    token.replace('SharedAccessSignature ', '').split('&').map((part) => {
      const at = part.indexOf('=');
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
  const expected = crypto.createHmac('sha256', key).update(`${fields.sr}\n${fields.se}`).digest('base64');
  const known = fields.skn === policy && decodeURIComponent(fields.sig) === expected;
  return known && Number(fields.se) * 1000 > Date.now();
}

const replies = new Map();
const replyTo = (context, message) => {
  const own = `${context.connection.remote.open.container_id} `;
  return replies.get(own + message.reply_to) || replies.get(own + context.receiver.target.address);
};

container.on('sender_open', ({ sender, connection }) => {
  sender.set_source(sender.source);
  sender.set_target(sender.target || {});
  const own = `${connection.remote.open.container_id} `;
  for (const address of [sender.target && sender.target.address, sender.source.address]) {
    if (address) replies.set(own + address, sender);
  }
});

container.on('receiver_open', ({ receiver }) => {
  const entity = pathOf(receiver.target.address);
  const refusal = entity.includes('$') ? undefined : ATTACHING[behaviour(entity)];
  if (refusal) {
    receiver.close(error(refusal)); // after an attach without a target, as the protocol wants it
    return;
  }
  receiver.set_source(receiver.source || {});
  receiver.set_target(receiver.target);
});

function answer(context, status, body) {
  const { message } = context;
  context.delivery.accept();
  replyTo(context, message).send({
    correlation_id: message.message_id,
    application_properties: { 'status-code': rhea.types.wrap_int(status), 'status-description': status < 300 ? 'OK' : 'No' },
    body,
  });
}

function hub(name) {
  const partitions = rhea.types.wrap_array(['0'], 0xa1);
  return { name, created_at: new Date(), partition_count: 1, partition_ids: partitions, type: 'com.microsoft:eventhub' };
}

const textOf = (body) => Buffer.from(body && body.content !== undefined ? body.content : body).toString('utf8');

function sectionsOf(data) {
  const { body } = rhea.message.decode(data);
  return body.multiple ? body.content : [body.content];
}

function report(entity, batch, message) {
  const { body, application_properties: properties, message_annotations: annotations, ...rest } = message;
  say({ entity, batch, fields: rest, properties, annotations, body: textOf(body) });
}

container.on('message', (context) => {
  const { message, delivery, connection } = context;
  const address = context.receiver.target.address;
  if (address === '$cbs') {
    const token = typeof message.body === 'string' ? message.body : textOf(message.body);
    const ok = verify(token);
    say({ token: { ...message.application_properties, ok } });
    answer(context, ok ? 202 : 401, null);
    return;
  }
  if (address.endsWith('$management')) {
    answer(context, 200, hub(message.application_properties.name));
    return;
  }
  const entity = pathOf(address);
  const kind = behaviour(entity);
  const batch = delivery.format === BATCH;
  say({ seen: entity });
  if (kind === 'mute') return;
  if (kind === 'drop') {
    connection.socket.destroy();
    return;
  }
  const messages = batch ? sectionsOf(message).map(rhea.message.decode) : [message];
  if (messages.some((one) => textOf(one.body).length > largest)) {
    delivery.reject(error(SENDING.large));
    return;
  }
  const satisfied = kind === 'session' ? messages.every((one) => one.group_id) : kind === 'picky' && !batch;
  if (SENDING[kind] && !satisfied) {
    delivery.reject(error(SENDING[kind]));
    return;
  }
  messages.forEach((one) => report(entity, batch, one));
  if (kind === 'flaky' && !known.has(entity)) {
    known.add(entity);
    delivery.reject(error(SENDING.busy)); // only the first time, and what came is shown all the same
    return;
  }
  delivery.accept();
});

for (const event of ['error', 'connection_error', 'session_error', 'protocol_error', 'disconnected']) {
  container.on(event, () => {}); // clients come and go, some of them rudely
}

const link = { max_message_size: largest, autoaccept: false, credit_window: 1000, autosettle: true };
const secure = cert ? { transport: 'tls', cert: fs.readFileSync(cert), key: fs.readFileSync(certKey) } : {};
const server = container.listen({
  port,
  host: '127.0.0.1',
  max_frame_size: 65536,
  idle_time_out: 120000,
  receiver_options: link,
  sender_options: { max_message_size: largest },
  ...secure,
});
server.on('listening', () => say({ port: server.address().port }));
